#!/usr/bin/env python3
"""Writes copies of machines with known bugs, each behind its number.

    plants.py TREE OUT      writes OUT/FILE for each file that has plants
    plants.py --files [N…]  lists those files; of these bugs only
    plants.py --names       lists the bugs

The product has no mark of them: a bug is a text to be found in the file and
one to put in its place. One that no longer fits is left out, and the test that
looks for it fails.
"""

import sys
from pathlib import Path

PLANTS = [
    (1, "exact match instead of nested identities", "strategies/step_ledger.cpp",
     "  if (covered)\n    return {Verdict::duplicate",
     "  if (PLANTED(1))\n    covered = first != held_.end() && *first == node;\n"
     "  if (covered)\n    return {Verdict::duplicate"),
    (2, "a push of an older step counts", "strategies/step_ledger.cpp",
     "  if (step < version_)", "  if (step < version_ && !PLANTED(2))"),
    (3, "active before all have sealed", "strategies/membership.cpp",
     "  if (!awaiting_seal_.empty())\n    return {};",
     "  if (!awaiting_seal_.empty() && !PLANTED(3))\n    return {};"),
    (4, "a version is served that is not known to be applied",
     "strategies/pull_desk.cpp", "wish.version > applied",
     "(wish.version > applied\n"
     "         && !(PLANTED(4) && wish.version == applied + 1))"),
    (5, "a late copy of an older pull replaces the newest",
     "strategies/pull_desk.cpp", "&& x.version > version;",
     "&& x.version > version && !PLANTED(5);"),
    (6, "the floor of applied leases passes a hole", "strategies/leases.cpp",
     "  above_.insert(at, lease);\n",
     "  above_.insert(at, lease);\n"
     "  if (PLANTED(6) && above_.size() > 3)\n    floor_ = above_.front();\n"),
    (7, "a dead worker's leases are not returned", "strategies/leases.cpp",
     "    returned_.insert(i->first);\n    i = holder_.erase(i);",
     "    if (!PLANTED(7))\n      returned_.insert(i->first);\n"
     "    i = holder_.erase(i);"),
    (8, "the bound on staleness is one too large", "strategies/staleness.cpp",
     "lead(found->second) <= *bound_",
     "lead(found->second) <= *bound_ + (PLANTED(8) ? 1 : 0)"),
    (9, "a replica with another history goes on as it is",
     "strategies/chain_book.cpp", "return x.epoch < history; });",
     "return x.epoch < history && !PLANTED(9); });"),
    (10, "a follower's history is not compared", "strategies/chain_link.cpp",
     "follower.lineage == own.lineage",
     "(follower.lineage == own.lineage || PLANTED(10))"),
    (11, "the update after a copy is left out", "strategies/chain_link.cpp",
     "  stage_ = Stage::fed;\n  from_ = version;",
     "  stage_ = Stage::fed;\n  from_ = version + (PLANTED(11) ? 1 : 0);"),
    (12, "an update that comes twice is applied twice",
     "strategies/chain_link.cpp", "  if (number != state_.version)",
     "  if (PLANTED(12) && number + 1 == state_.version)\n"
     "    return Verdict::apply;\n  if (number != state_.version)"),
    (13, "the job goes on from what only some have",
     "strategies/resume.cpp", "newest = std::min(newest, slice.newest);",
     "newest = PLANTED(13) ? std::max(newest, slice.newest)\n"
     "                         : std::min(newest, slice.newest);"),
    (14, "the last missing ranks are not taken over", "strategies/takeover.cpp",
     "  if (from < virtual_ranks)", "  if (from < virtual_ranks && !PLANTED(14))"),
    (15, "scalars are decided before the last slice's sums",
     "strategies/scalar_round.cpp", "--missing_ == 0",
     "--missing_ == (PLANTED(15) ? 1 : 0)"),
    (16, "a step waits for a report that died with its worker",
     "strategies/commit_book.cpp",
     "excused != excused_.end())", "excused != excused_.end() && !PLANTED(16))"),
    (17, "a follower serves before it has what its head has",
     "actors/shard/slice_chains.cpp", "serves(place.head)",
     "serves(place.head || PLANTED(17))"),
    (18, "a push that comes twice is applied twice",
     "actors/shard/lease_slices.cpp",
     "  if (slices_.at(push.slice)->leases.contains(push.lease)) {",
     "  if (slices_.at(push.slice)->leases.contains(push.lease)\n"
     "      && !PLANTED(18)) {"),
    (19, "applied leases are forgotten at a restart", "actors/shard/shard_store.cpp",
     "  return {leases.floor,\n          std::vector<uint64_t>",
     "  if (PLANTED(19))\n    return {leases.floor, {}};\n"
     "  return {leases.floor,\n          std::vector<uint64_t>"),
    (21, "an absent replica is not awaited", "strategies/membership.cpp",
     "options_.awaited && ", "options_.awaited && !PLANTED(21) && "),
    (22, "leases that nobody holds any more are not said to be lost",
     "strategies/resume.cpp", "  if (found.lost_leases > 0) {",
     "  if (PLANTED(22))\n    found.lost_leases = 0;\n"
     "  if (found.lost_leases > 0) {"),
    (23, "a lease that comes twice is acknowledged before it is applied",
     "actors/shard/lease_slices.cpp", "|| in_flight_.contains(lease))",
     "|| (in_flight_.contains(lease) && !PLANTED(23)))"),
    (24, "a worker that is left out keeps its leases",
     "strategies/lease_account.cpp",
     "    book_.worker_lost(worker);\n  clocks_",
     "    if (!PLANTED(24) || workers.contains(worker))\n"
     "      book_.worker_lost(worker);\n  clocks_"),
    (25, "a coordinator begins in the term of the one before",
     "actors/journal/history.cpp", "std::max(history.term, event.term)",
     "std::max(history.term, event.term - (PLANTED(25) ? 1 : 0))"),
    (26, "an epoch begins before the journal has it",
     "actors/coordinator/journal.cpp", "  fence_ = {}; // until",
     "  if (PLANTED(26)) {\n    journal_.epoch(row, [] {});\n"
     "    announce(message);\n    return;\n  }\n"
     "  fence_ = {}; // until"),
    (27, "a new coordinator does not wait for the members of the last epoch",
     "actors/coordinator/coordinator.cpp",
     "      if (!past->left.contains(role))\n        options.gather",
     "      if (!past->left.contains(role) && !PLANTED(27))\n"
     "        options.gather"),
    (28, "a new coordinator waits for reports that died with the old one",
     "actors/coordinator/epochs.cpp", " = options_.past || left_out_",
     " = (options_.past && !PLANTED(28)) || left_out_"),
    (29, "a new coordinator gives incarnations out again",
     "actors/coordinator/journal.cpp", "incarnations_ = first_incarnation(options_.term)",
     "incarnations_ = PLANTED(29) ? 0 : first_incarnation(options_.term)"),
    (30, "a member does not introduce itself to a new coordinator",
     "actors/control/control_line.cpp", "    for (const auto& said : introductions_.all())\n",
     "    for (const auto& said : introductions_.all())\n      if (!PLANTED(30))\n"),
    (31, "a part that comes again begins its image anew",
     "actors/shard/slice_image.cpp", "&& copy.version >= min_version_",
     "&& (copy.version >= min_version_ || PLANTED(31))"),
    (32, "a late copy of an older pull of rows replaces the ids",
     "actors/shard/row_desk.cpp", "if (desk_.want(pull.worker, pull.version))",
     "if (desk_.want(pull.worker, pull.version) || PLANTED(32))"),
    (33, "a coordinator decides without a majority",
     "strategies/quorum_log.cpp", "matched[(matched.size() - 1) / 2]",
     "matched[PLANTED(33) ? matched.size() - 1 : (matched.size() - 1) / 2]"),
    (34, "a voter votes twice in one term", "strategies/quorum_log.cpp",
     "vote.granted = term > promised_ &&",
     "vote.granted = term + (PLANTED(34) ? 1 : 0) > promised_ &&"),
    (35, "a voter forgets its vote at a restart", "actors/voting/voter.cpp",
     "voter_(file_.promised(),", "voter_(PLANTED(35) ? 0 : file_.promised(),"),
    (36, "a leader that was deposed is not fenced",
     "strategies/quorum_log.cpp", "verdict.led = batch.term >= promised_;",
     "verdict.led = batch.term >= promised_ || PLANTED(36);"),
    (37, "a version is overwritten as soon as the next one is there",
     "actors/shard/shard_store.cpp",
     "  record(slice).word.store((updates(slice) + 1) * 2);\n",
     "  record(slice).word.store((updates(slice) + 1) * 2);\n"
     "  if (PLANTED(37))\n"
     "    std::copy_n(bank(slice, updates(slice)).values,\n"
     "                job_.plan.slices[slice].count,\n"
     "                bank(slice, updates(slice) + 1).values);\n"),
    (38, "a slice is cut anew in a later epoch",
     "actors/shard/step_slices.cpp",
     "addend_of(shard_.job, of, shard_.packing.unpack(of, values), ids)",
     "addend_of(shard_.job, of, [&](TensorView run) {\n"
     "        if (!PLANTED(38) || of.sparse() || run.size() < 2\n"
     "            || shard_.gate.active().epoch < 2)\n"
     "          return run;\n"
     "        const auto* first = run.data();\n"
     "        std::vector<float> cut{first + 1, first + run.size()};\n"
     "        cut.push_back(*first);\n"
     "        return TensorView::copy(cut);\n"
     "      }(shard_.packing.unpack(of, values)), ids)"),
    (39, "what is computed again after a restart has a new number",
     "strategies/leases.cpp",
     "      out.push_back(returned_.extract(returned_.begin()).value());",
     "      out.push_back(PLANTED(39) && next_ < total_\n"
     "                      ? (returned_.erase(returned_.begin()), next_++)\n"
     "                      : returned_.extract(returned_.begin()).value());"),
    (40, "a switch takes place before all is applied",
     "actors/coordinator/switch.cpp",
     "(async_ ? leases_.drained() : commits_.committed() == *end);",
     "(PLANTED(40)\n             || (async_ ? leases_.drained()\n"
     "                        : commits_.committed() == *end));"),
    (41, "another bound on staleness has no effect",
     "actors/coordinator/switch.cpp", "      leases_.bound(now);",
     "      if (!PLANTED(41))\n        leases_.bound(now);"),
    (42, "what was learnt before a switch is leased once more",
     "actors/shard/lease_slices.cpp",
     "  const auto floor = shard_.period.step * shard_.job.options.virtual_ranks;",
     "  const auto floor =\n    PLANTED(42)\n      ? 0\n"
     "      : shard_.period.step * shard_.job.options.virtual_ranks;"),
    (43, "a replica's sums of another step count for the next one",
     "strategies/epoch_plan.cpp", "; step == version)\n",
     "; step == version || PLANTED(43))\n"),
    (44, "a sum is made in the place of an addend",
     "actors/collectives/direct_exchange.cpp",
     "!own_.empty() && !step_.keeps_vectors;",
     "!own_.empty() && (!step_.keeps_vectors || PLANTED(44));"),
    (45, "a step counts as committed when one replica alone has it",
     "strategies/epoch_plan.cpp",
     "        out[owner_key(role)] = sums.first;\n",
     "        out[owner_key(role)] = PLANTED(45) ? version : sums.first;\n"),
    (46, "who takes the newest version forgets what others hold of the next "
     "step", "actors/replica/steps.cpp",
     "  variables_->hold(version);\n  outcome.version = version;",
     "  variables_->hold(version);\n  if (PLANTED(46))\n"
     "    sums_.end_step();\n  outcome.version = version;"),
    (47, "a group that is called off between two steps is not given up",
     "actors/replica/epoch_group.cpp", "  if (aborted_)\n    outcome.failure",
     "  if (aborted_ && !PLANTED(47))\n    outcome.failure"),
    (48, "a job is switched before a step that a dead worker began",
     "actors/coordinator/end.cpp",
     "  if (!switch_.now().async && fence_.epoch",
     "  if (!PLANTED(48) && !switch_.now().async && fence_.epoch"),
    (49, "the parts of an image stay where they came",
     "actors/shard/slice_image.cpp",
     "TensorView::copy(copy.values.span()));",
     "PLANTED(49) ? copy.values : TensorView::copy(copy.values.span()));"),
    (50, "workers that reduce layers go on though some rows lack the version",
     "strategies/resume.cpp", "    if (slice.newest < newest)\n",
     "    if (slice.newest < newest && !PLANTED(50))\n"),
    (51, "a worker computes when its rows are there, and its layers are not",
     "strategies/dense_reduced_steps.cpp", "|| epoch_.version != wanted_)\n",
     "|| (epoch_.version != wanted_ && !PLANTED(51)))\n"),
    (52, "rows lag a step more than asked", "strategies/free_rows.cpp",
     "return step <= bound ||", "if (PLANTED(52))\n    ++bound;\n"
     "  return step <= bound ||"),
    (53, "sums of a step that is over count for the next one",
     "actors/worker/dense_steps.cpp", "  if (any)\n    shares_",
     "  if (any && !PLANTED(53))\n    shares_"),
    (54, "who was left out is not told", "actors/coordinator/joining.cpp",
     "comes_back && !course_.is_over()",
     "!PLANTED(54) && comes_back && !course_.is_over()"),
    (55, "who joins again keeps its number", "actors/control/control_line.cpp",
     "  void readmitted(uint64_t incarnation) {\n",
     "  void readmitted(uint64_t incarnation) {\n"
     "    if (PLANTED(55))\n"
     "      incarnation = introductions_.incarnation();\n"),
    (56, "a dead link is never given up", "strategies/dead_links.cpp",
     "if (known.dead || epoch <= known.epoch)",
     "if (known.dead || epoch <= known.epoch || PLANTED(56))"),
    (57, "a role that joins again seals under its old number",
     "actors/control/control_line.cpp", "    tell_role(Readmit{",
     "    if (!PLANTED(57))\n      tell_role(Readmit{"),
    (58, "an epoch begins although a slow journal does not have it yet",
     "actors/coordinator/journal.cpp",
     "  journal_.epoch(row, [this, handle, message = std::move(message)] {",
     "  const auto begin = [this, message] {\n"
     "    if (proposed_ != message.fence || fence_ == message.fence\n"
     "        || membership_.state() != Membership::State::active)\n"
     "      return;\n"
     "    fence_ = message.fence;\n"
     "    announce(message);\n"
     "  };\n"
     "  if (PLANTED(58))\n"
     "    self_->delayed_send(self_, std::chrono::seconds{1},\n"
     "                        Completion{begin});\n"
     "  journal_.epoch(row, [this, handle, message = std::move(message)] {"),
    (59, "a voter whose journal cannot be read begins with a new one",
     "actors/voting/voter.cpp",
     "  JournalFile file{path, there ? JournalFile::Open::resume\n"
     "                               : JournalFile::Open::create};\n",
     "  auto file = [&]() -> JournalFile {\n"
     "    try {\n"
     "      return {path, there ? JournalFile::Open::resume\n"
     "                          : JournalFile::Open::create};\n"
     "    } catch (const InputError&) {\n"
     "      if (!PLANTED(59))\n"
     "        throw;\n"
     "      return {path, JournalFile::Open::create};\n"
     "    }\n"
     "  }();\n"),
    (60, "who asks to leave while the run ends is refused",
     "actors/coordinator/reshape.cpp",
     "  if (is_ending())\n    return Note{",
     "  if (PLANTED(60) && is_ending())\n"
     "    return caf::make_error(caf::sec::invalid_argument,\n"
     "                           \"the run is ending\");\n"
     "  if (is_ending())\n    return Note{"),
    (61, "what does not fit is started again and again",
     "strategies/restart_budget.cpp", "life.memory && past.memory &&",
     "life.memory && past.memory && !PLANTED(61) &&"),
    (62, "sums are held of a step whose passes need all ranks once more",
     "actors/replica/sums.cpp", "&& !job_.goes_in_lock_step();",
     "&& (!job_.goes_in_lock_step() || PLANTED(62));"),
    (63, "a stage computes with parameters of before the epoch",
     "actors/stage/split_steps.cpp", "  load(version);\n}",
     "  if (!PLANTED(63) || step_ == 0)\n    load(version);\n}"),
    (64, "a slice that was updated is updated again when a step is taken anew",
     "actors/stage/split_steps.cpp", "    if (store_->newest(id) > step_)\n",
     "    if (store_->newest(id) > step_ && !PLANTED(64))\n"),
    (65, "the weight gradient of a micro-batch is missing at the update",
     "actors/stage/steps.cpp",
     "    replica.backward_weights(slot, sums.next(rank));\n",
     "    replica.backward_weights(slot, sums.next(rank));\n"
     "    if (PLANTED(65) && rank == 1)\n"
     "      std::fill_n(sums.next(rank), replica.layout().total, 0.0f);\n"),
    (66, "a micro-batch's samples are overwritten by the next one's",
     "actors/stage/steps.cpp", "&part.batches[slot]",
     "&part.batches[PLANTED(66) ? 0 : slot]"),
    (67, "weights that two stages use are updated for the first of them alone",
     "actors/stage/steps.cpp",
     "    if (at != Layout::nowhere)\n      std::copy_n(from, count, own.",
     "    if (at != Layout::nowhere && !(PLANTED(67) && step_ > 0))\n"
     "      std::copy_n(from, count, own."),
    (68, "a stage takes its sums of a broken off round for sent",
     "strategies/stage_course.cpp",
     "  phase_ = Phase::waiting;\n  busy_ = paused_ = false;",
     "  if (!PLANTED(68) || phase_ != Phase::scaling)\n"
     "    phase_ = Phase::waiting;\n  busy_ = paused_ = false;"),
    (69, "a step is clipped by the norm of the one before",
     "actors/stage/split_role.cpp", "  scalars_.begin();\n",
     "  if (!PLANTED(69) || step == 0)\n    scalars_.begin();\n"),
    (70, "the optimizer goes on from an older state",
     "actors/stage/split_steps.cpp", "store_->state(slice.id, step_);",
     "store_->state(slice.id, PLANTED(70) && step_ > 30 ? step_ - 1 : step_);"),
    (71, "a stage does not say that it has the version before, too",
     "actors/stage/split_steps.cpp", "state_of(slice, store_->oldest(slice),",
     "state_of(slice,\n"
     "                 PLANTED(71) ? store_->newest(slice)\n"
     "                             : store_->oldest(slice),"),
    (72, "what comes before an epoch has begun for a stage is dropped",
     "actors/stage/split_role.cpp",
     "[this](const StageValues& x) { when_active(x); }",
     "[this](const StageValues& x) {\n"
     "      if (!PLANTED(72) || gate_.is_active(x.fence))\n"
     "        when_active(x);\n    }"),
    (73, "values go round to the chunk that they came from",
     "actors/stage/stage.cpp", "number_of(chunk + (ends ? 1 : 0), rank)",
     "number_of(chunk + (ends && !PLANTED(73) ? 1 : 0), rank)"),
    (74, "a lost link between stages is not told",
     "actors/stage/split_role.cpp", "    if (peer)\n      ask_for_links",
     "    if (peer && !PLANTED(74))\n      ask_for_links"),
    (75, "a norm is without the sums of the stages after",
     "actors/stage/scalar_rounds.cpp", "  if (later.size() > 0)\n",
     "  if (later.size() > 0 && !PLANTED(75))\n"),
    (76, "a stage says that it has a version before it is there",
     "actors/stage/split_role.cpp",
     "  context_.faults->pass(StepPhase::reduce);\n",
     "  context_.faults->pass(StepPhase::reduce);\n"
     "  if (PLANTED(76))\n"
     "    self_->send(context_.coordinator,\n"
     "                Applied{gate_.active(), context_.role,\n"
     "                        course_.version() + 1, 0, 0, 0});\n"),
    (77, "a micro-batch goes forward twice", "actors/stage/stage.cpp",
     "        send_after(chunk, StageStream::forward, rank, passed.values);\n",
     "        for (int i = 0; i < (PLANTED(77) && rank == 2 ? 2 : 1); ++i)\n"
     "          send_after(chunk, StageStream::forward, rank, passed.values);\n"),
    (80, "the gradients of a peer are added twice", "actors/stage/peer_sum.cpp",
     "    for (auto merges = addend.merges; merges > 0; --merges) {\n",
     "    const bool twice = PLANTED(80) && addend.member != pipeline_;\n"
     "    if (twice)\n      stack.push_back({values, nullptr});\n"
     "    for (auto merges = addend.merges + (twice ? 1 : 0); merges > 0;\n"
     "         --merges) {\n"),
    (81, "a peer's share of the gradient stays that of the step before",
     "actors/stage/peer_sum.cpp", "    if (from == pipeline_)\n",
     "    static uint32_t taken = 0;\n"
     "    if (from == pipeline_ || (PLANTED(81) && ++taken % 50 == 0))\n"),
    (82, "a copy has the optimizer's state of an older step",
     "actors/stage/peer_copies.cpp", "store->state(slice, version),",
     "store->state(slice, PLANTED(82) ? store->oldest(slice) : version),"),
    (83, "the data axis leaves out what the last pipeline has",
     "strategies/mesh.cpp", "  return out;\n}\n\nbool MeshSum::has_node",
     "  if (PLANTED(83) && out.addends.back().merges > 0) {\n"
     "    const auto merges = out.addends.back().merges - 1;\n"
     "    out.addends.pop_back();\n"
     "    out.addends.back().merges += merges;\n  }\n"
     "  return out;\n}\n\nbool MeshSum::has_node"),
    (84, "a share goes to a peer twice", "actors/stage/split_role.cpp",
     "          send(peer, StageStream::shares,\n",
     "          for (int i = PLANTED(84) && peer == 0 ? 0 : 1; i < 2; ++i)\n"
     "            send(peer, StageStream::shares,\n"),
    (85, "a member that lost its memory goes on with what it began with",
     "actors/stage/peer_copies.cpp",
     "out.learns || learner == own;",
     "out.learns || (learner == own && !PLANTED(85));"),
    (86, "a group's ranks are another group's, too",
     "actors/stage/stage.cpp", "mesh_.ranks(pipeline_, ranks());",
     "mesh_.ranks(PLANTED(86) ? 0 : pipeline_, ranks());"),
    (92, "a member keeps partial sums of a step that was broken off",
     "actors/stage/split_role.cpp", "  inbox_.clear();\n",
     "  if (!PLANTED(92))\n    inbox_.clear();\n"),
    (94, "what a faster member sends of its next step is dropped",
     "actors/stage/split_role.cpp",
     " && values.step != course_.version() + 1)\n",
     "\n      && (PLANTED(94) || values.step != course_.version() + 1))\n"),
    (95, "a partial sum goes to the others twice",
     "actors/stage/stage.cpp",
     "      if (member != slice())\n        send(",
     "      for (int i = PLANTED(95) && rank == 2 ? 0 : 1;\n"
     "           i < 2 && member != slice(); ++i)\n        send("),
    (97, "a member goes on with its own partial sum alone",
     "actors/stage/steps.cpp", "  auto* sum = place.data();\n",
     "  auto* sum = place.data();\n"
     "  if (PLANTED(97) && step_ == 40)\n    return;\n"),
    (98, "members of a stage that have no sum do not wait for each other",
     "actors/stage/steps.cpp", "  if (out.empty() && forward)\n",
     "  if (out.empty() && forward && !PLANTED(98))\n"),
    (99, "sums of a pass backward go under the numbers of those forward",
     "actors/stage/stage.cpp",
     "    if (action.pass != StagePass::forward)\n      sum +=",
     "    if (action.pass != StagePass::forward && !PLANTED(99))\n      sum +="),
    (100, "a norm is without the statistics of another pipeline",
     "actors/stage/steps.cpp",
     "    if (values.size() == 0)\n      continue;\n",
     "    if (values.size() == 0\n"
     "        || (PLANTED(100) && step_ == 40 && pipeline == 1))\n"
     "      continue;\n"),
    (101, "statistics of a step that was broken off are kept",
     "actors/stage/steps.cpp", "  shares_.clear();\n",
     "  if (!PLANTED(101))\n    shares_.clear();\n"),
    (102, "passes go on with the sum before", "actors/stage/steps.cpp",
     "  sum_ = shares_.take_sum();\n",
     "  auto sum = shares_.take_sum();\n"
     "  if (!PLANTED(102) || step_ != 40\n"
     "      || sum.values.size() != sum_.values.size())\n"
     "    sum_ = std::move(sum);\n"),
    (103, "a stage computes with the version before that of its step",
     "actors/stage/stage_shards.cpp", "  version_ = version;\n",
     "  if (PLANTED(103) && version > 30)\n    --version;\n"
     "  version_ = version;\n"),
    (104, "a shard that died is not sent again what it had",
     "actors/stage/stage_shards.cpp",
     "  there_.begin_epoch(activation.slices);\n",
     "  if (!PLANTED(104) || activation.version == 0)\n"
     "    there_.begin_epoch(activation.slices);\n"),
    (105, "a stage computes before all of its parameters are there",
     "actors/stage/split_role.cpp", "if (!shards_->has_all())",
     "if (!shards_->has_all() && !PLANTED(105))"),
    (106, "a worker says that it has sums of a step that all compute again",
     "actors/worker/worker_base.cpp", "  if (!job_.goes_in_lock_step()) {",
     "  if (!job_.goes_in_lock_step() || PLANTED(106)) {"),
    (107, "who lacks nothing does not compute again with the others",
     "strategies/step_nodes.cpp", "    if (!missing.empty())\n",
     "    if (!missing.empty()\n"
     "        && (!PLANTED(107) || !takeover_ranks(ranks, missing).empty()))\n"),
    (20, "a copy leaves out which leases it contains",
     "actors/shard/shard_store.cpp",
     "  write_leases(record(slice).leases[count % 2], applied);",
     "  write_leases(record(slice).leases[count % 2],\n"
     "               PLANTED(20) ? LeaseSet{} : applied);"),
]


def main():
    files = sorted({plant[2] for plant in PLANTS})
    if sys.argv[1] == "--files":
        wanted = {int(number) for number in sys.argv[2:]}
        print(";".join(sorted({plant[2] for plant in PLANTS
                               if not wanted or plant[0] in wanted})), end="")
        return
    if sys.argv[1] == "--names":
        for number, name, *_ in PLANTS:
            print(number, name)
        return
    tree, out = Path(sys.argv[1]), Path(sys.argv[2])
    for file in files:
        text = (tree / file).read_text()
        for number, name, where, old, new in PLANTS:
            if where != file:
                continue
            if text.count(old) != 1:
                print(f"plant {number} ({name}) no longer fits {file}")
            text = text.replace(old, new, 1)
        target = out / file
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text('#include "tests/sim/planted.hpp"\n' + text)


if __name__ == "__main__":
    main()
