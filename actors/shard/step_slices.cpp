#include "actors/shard/step_slices.hpp"

#include "actors/job/shard_tables.hpp"
#include "actors/shard/snapshots.hpp"
#include "actors/shard/task_size.hpp"

#include <algorithm>

namespace troupe {

StepSlices::StepSlices(ShardContext& shard)
  : shard_(shard),
    rounds_(rounds_of(shard.job.options)),
    keeps_nodes_(shard.job.goes_by_parts()),
    chains_(shard, {[this](const ChainUpdate& x) { apply(x); },
                    [](uint32_t, const SliceImage&) {},
                    [this](uint32_t slice, uint64_t version) {
                      slices_.at(slice)->version = version;
                      show(slice);
                      serve(slice);
                      checkpoint(slice);
                      report_applied();
                    },
                    [this](uint32_t slice, uint32_t follower) {
                      if (slice == 0)
                        desk_.joined(follower);
                    }}),
    desk_(shard, chains_),
    end_(shard.job.total_steps) {
  if (StepSharesDesk::needed(shard.job))
    shares_.emplace(shard,
                    [this](uint64_t step, const std::vector<float>& decision,
                           std::function<void()> held) {
                      desk_.replicate(step, ShardStore::shares_round, decision,
                                      std::move(held));
                    });
}

// --- epochs -----------------------------------------------------------------

void StepSlices::leave_epoch() {
  pulls_.reset(0);
  served_.clear();
  pullers_.clear();
  wanted_.reset();
  desk_.leave_epoch();
  if (shares_)
    shares_->leave_epoch();
  for (auto& [id, slice] : slices_) {
    slice->begin_step();
    slice->readers.clear();
    slice->rows.reset();
    slice->lists.reset();
    if (!slice->ledger.held().empty())
      shard_.submit([s = slice.get()] { s->work.own(); });
  }
}

void StepSlices::seal(std::vector<SliceState>& report) const {
  const auto& store = *shard_.store;
  for (auto slice : store.slices()) {
    const auto owned = slices_.find(slice);
    const bool head = owned != slices_.end() && owned->second->head;
    report.push_back(
      {slice,
       store.oldest(slice),
       store.newest(slice),
       head ? owned->second->ledger.held() : std::vector<RankRange>{},
       0,
       {},
       store.lineage(slice)});
  }
}

void StepSlices::restore() {
  end_ = shard_.job.total_steps;
  if (shares_)
    shares_->restore();
  slices_.clear();
}

void StepSlices::enter_epoch(const Activate& activation) {
  reported_ = ~uint64_t{0};
  chains_.enter_epoch(activation);
  std::erase_if(slices_, [&](const auto& x) {
    return chains_.find(x.first) == nullptr;
  });
  const auto& store = shard_.store;
  for (const auto& [slice, line] : chains_.lines()) {
    auto& owned = slices_[slice];
    if (!owned)
      owned = std::make_unique<Owned>(shard_.job.options.virtual_ranks,
                                      SliceWork{shard_.job, store, slice,
                                                *shard_.executor});
    owned->version = store->holds(slice) ? store->newest(slice) : 0;
    if (!line.place.head || !owned->head
        || owned->ledger.version() != owned->version) {
      owned->ledger.reset(owned->version);
      owned->work.forget();
    }
    owned->head = line.place.head;
    if (line.place.tail && !shard_.job.plan.slices[slice].sparse())
      served_.emplace(slice, served_.size());
  }
  pulls_.reset(served_.size());
  if (shares_)
    shares_->enter_epoch(desk_.decides(), heads_of(chains_.chains()).front(),
                         desk_.decides() ? slices_.at(0)->version : 0);
  for (const auto& [slice, owned] : slices_)
    show(slice); // an earlier process may have died in between
  report_applied();
  for (const auto& [slice, owned] : slices_)
    if (owned->ledger.complete()) // its scalars are not known
      reduce(slice);
    else if (owned->head)
      leave_out(slice);
}

// --- messages ---------------------------------------------------------------

void StepSlices::take(const ShardMessage& message,
                      const caf::strong_actor_ptr& from) {
  const auto worker = [&] { return caf::actor_cast<worker_actor>(from); };
  const auto shard = [&] { return caf::actor_cast<shard_actor>(from); };
  std::visit(
    Overload{
      [&](const Pull& x) { pull(x, worker()); },
      [&](const RowPull& x) { pull(x, worker()); },
      [&](const Push& x) { push(x); },
      [](const LeasePush&) {},
      [&](const BlockSums& x) { desk_.take(x, shard(), samples_of(x.step)); },
      [&](const Scalars& x) { take(x); },
      [&](const ChainJoin& x) { chains_.take(x); },
      [&](const SliceCopy& x) { chains_.take(x); },
      [&](const ChainUpdate& x) { chains_.take(x); },
      [&](const ChainScalars& x) { desk_.take(x); },
      [&](const ScalarsHeld& x) { desk_.take(x); },
      [&](const AskShares& x) {
        if (shares_)
          shares_->take(x, shard());
      },
      [&](const StepShares& x) { take(x); },
      [&](const EndAt& x) { end_at(x); },
      [&](const SnapshotRequest& x) { snapshot(x); },
    },
    message);
}

// --- pulls ------------------------------------------------------------------

void StepSlices::pull(const Pull& pull, const worker_actor& worker) {
  shard_.pass(StepPhase::pull);
  if (pull.slice != Pull::every_slice) {
    if (const auto one = slices_.find(pull.slice); one != slices_.end()) {
      one->second->readers.push_back({worker, pull.version});
      serve(pull.slice);
    }
    return;
  }
  pullers_[pull.worker] = worker;
  pulls_.want(pull.worker, pull.version);
  for (const auto& [slice, place] : served_)
    serve(slice);
}

void StepSlices::serve(uint32_t id) {
  const auto& slice = shard_.job.plan.slices[id];
  if (slice.sparse())
    return serve_rows(id);
  if (!serves(id) || !served_.contains(id))
    return;
  serve_readers(id);
  const auto& store = shard_.store;
  for (auto [puller, version] :
       pulls_.serve(served_.at(id), shares_ ? 0 : store->oldest(id),
                    slices_.at(id)->version))
    if (shares_)
      serve_copy(id, puller, version);
    else
      shard_.self->send(
        pullers_[puller],
        Pulled{shard_.gate.active(), version, id,
               TensorView{store, store->values(id, version), slice.count}});
}

void StepSlices::serve_readers(uint32_t id) {
  auto& owned = *slices_.at(id);
  const auto& store = shard_.store;
  std::erase_if(owned.readers, [&](const Reader& reader) {
    if (reader.version > owned.version || reader.version < store->oldest(id))
      return false;
    shard_.self->send(
      reader.worker, Pulled{shard_.gate.active(), reader.version, id,
                            TensorView{store, store->values(id, reader.version),
                                       shard_.job.plan.slices[id].count}});
    return true;
  });
}

void StepSlices::serve_copy(uint32_t id, RoleId puller, uint64_t version) {
  shard_.run(
    [this, id, count = shard_.job.plan.slices[id].count, version] {
      const auto& store = *shard_.store;
      const auto held = std::max(version, store.oldest(id));
      return Pulled{{}, held, id, shard_.copy({store.values(id, held), count})};
    },
    [this, puller, fence = shard_.gate.active()](Pulled& copy) {
      if (!shard_.gate.is_active(fence))
        return;
      copy.fence = fence;
      shard_.self->send(pullers_[puller], std::move(copy));
    },
    task_size(shard_.job.plan.slices[id].count));
}

// --- pushes -----------------------------------------------------------------

void StepSlices::push(const Push& push) {
  const auto* line = chains_.find(push.slice);
  if (line == nullptr || !line->place.head
      || !is_node(push.node, shard_.job.options.virtual_ranks)
      || !shard_.fits_push(push.slice, push.values))
    return;
  auto* owned = slices_.at(push.slice).get();
  const auto said = shard_.said_of(owned->lists, push.slice, push.values);
  if (said.named && !said.list)
    return unknown_rows(push);
  if (!shares_ || shares_->admit(push, owned->ledger.version()))
    accept(push, said.list);
}

void StepSlices::accept(const Push& push, KnownLists::List ids) {
  auto* slice = slices_.at(push.slice).get();
  auto decision = slice->ledger.offer(push.step, push.node);
  if (decision.verdict != StepLedger::Verdict::accept) {
    shard_.count_duplicate();
    return;
  }
  shard_.metrics.staleness.observe(0); // a step's pushes are of its version
  slice->count(gradient_values(shard_.job, push.slice, ids.get()),
               shard_.job.plan.slices[push.slice].sparse());
  shard_.submit(
    [this, slice, node = push.node, id = push.slice, values = push.values,
     ids = std::move(ids), decision = std::move(decision)] {
      const auto& of = shard_.job.plan.slices[id];
      slice->work.accept(
        node, addend_of(shard_.job, of, shard_.packing.unpack(of, values), ids),
        decision);
      if (keeps_nodes_)
        slice->work.own();
    },
    task_size(slice->values));
  if (slice->ledger.complete()) {
    shard_.pass(StepPhase::reduce);
    reduce(push.slice);
  }
  show_load();
}

/// The shares that a step is made of are known: identities stand for the rest.
void StepSlices::take(const StepShares& decision) {
  if (!shares_ || !shares_->take(decision))
    return;
  for (const auto& [id, slice] : slices_)
    if (slice->head && slice->ledger.version() == decision.step)
      leave_out(id);
  for (const auto& kept : shares_->release(decision.step))
    push(kept); // it is in now
}

/// This goes for what a head knows since it was a follower, too.
void StepSlices::leave_out(uint32_t id) {
  const auto& ledger = slices_.at(id)->ledger;
  const auto step = ledger.version();
  if (!shares_)
    return;
  for (auto node : shares_->left_out_of(step)) {
    const auto held = ledger.held();
    if (std::ranges::none_of(held, [&](RankRange x) { return x.covers(node); }))
      accept(Push{{}, step, node, id, {}});
  }
}

void StepSlices::reduce(uint32_t id) {
  auto* slice = slices_.at(id).get();
  if (slice->round == rounds_.size()) {
    apply_root(id);
    return;
  }
  const auto step = slice->ledger.version();
  shard_.run(
    [slice, kind = rounds_[slice->round], step, samples = samples_of(step),
     scalars = slice->scalars] {
      return slice->work.sums(kind, step, samples, scalars);
    },
    [this, slice, id, step,
     fence = shard_.gate.active()](std::vector<double>& sums) {
      if (!shard_.gate.is_active(fence))
        return;
      slice->asking = true;
      desk_.ask(step, slice->round, id, sums);
    },
    task_size(slice->values));
}

void StepSlices::take(const Scalars& scalars) {
  for (auto& [id, slice] : slices_) {
    if (!slice->asking || slice->round != scalars.round
        || slice->ledger.version() != scalars.step
        || !take_scalars(shard_.job, rounds_[scalars.round],
                         {scalars.values.begin(), scalars.values.end()},
                         slice->scalars))
      continue;
    slice->asking = false;
    ++slice->round;
    reduce(id);
  }
}

// --- updates ----------------------------------------------------------------

/// The ledger goes on at once: the tail may be pulled, and the next step
/// pushed, before this shard hears that it has applied this one.
void StepSlices::apply_root(uint32_t id) {
  auto* slice = slices_.at(id).get();
  const auto step = slice->ledger.version();
  if (chains_.forwards(id))
    forward_root(id); // before it is applied here: all apply at once
  shard_.run(
    [slice, step, samples = samples_of(step), scalars = slice->scalars] {
      slice->work.apply_step(step, samples, scalars);
      return true;
    },
    [this, id](bool) { on_applied(id); }, task_size(slice->values));
  slice->begin_step();
  slice->ledger.advance();
}

void StepSlices::forward_root(uint32_t id) {
  auto* slice = slices_.at(id).get();
  ChainUpdate update;
  update.slice = id;
  update.samples = samples_of(slice->ledger.version());
  update.gradient_scale = slice->scalars.gradient_scale;
  const auto variable = shard_.job.plan.slices[id].variable;
  if (!slice->scalars.trust_ratios.empty())
    update.trust_ratio = slice->scalars.trust_ratios[variable];
  shard_.run([slice] { return slice->work.root(); },
             [this, update, fence = shard_.gate.active()](TensorView& root) {
               if (!shard_.gate.is_active(fence))
                 return;
               auto whole = update;
               whole.values = std::move(root);
               chains_.order(std::move(whole));
             },
             task_size(slice->values));
}

/// What the head has summed and scaled, applied again: the same bits.
void StepSlices::apply(const ChainUpdate& update) {
  auto* slice = slices_.at(update.slice).get();
  StepScalars scalars;
  scalars.gradient_scale = update.gradient_scale;
  const auto& plan = shard_.job.plan;
  if (shard_.job.options.rule.kind == OptimizerKind::lamb) {
    scalars.trust_ratios.resize(plan.variables.size());
    scalars.trust_ratios[plan.slices[update.slice].variable] =
      update.trust_ratio;
  }
  const auto ids =
    shard_.said_of(slice->lists, update.slice, update.values).list;
  shard_.run(
    [this, slice, update, scalars, ids] {
      slice->work.apply_sum(addend_of(shard_.job,
                                      shard_.job.plan.slices[update.slice],
                                      update.values, ids),
                            update.number, update.samples, scalars);
      return true;
    },
    [this, id = update.slice](bool) { on_applied(id); },
    task_size(gradient_values(shard_.job, update.slice, ids.get())));
}

void StepSlices::on_applied(uint32_t slice) {
  ++slices_.at(slice)->version;
  show(slice);
  serve(slice);
  checkpoint(slice); // while workers compute
  report_applied();
  show_load();
}

void StepSlices::report_applied() {
  if (!shard_.gate.is_active())
    return;
  auto version = shard_.job.total_steps; // what one without slices reports
  for (const auto& [slice, line] : chains_.lines())
    if (line.place.replica)
      version = std::min(version, slices_.at(slice)->version);
  if (version == reported_)
    return;
  reported_ = version;
  shard_.self->send(shard_.context.coordinator,
                    Applied{shard_.gate.active(), shard_.context.role, version,
                            shard_.duplicates});
}

void StepSlices::show_load() {
  size_t held = 0;
  for (const auto& [id, slice] : slices_)
    held += slice->ledger.held().size();
  shard_.metrics.pending.set(static_cast<double>(held));
  shard_.metrics.queue.set(static_cast<double>(shard_.executor->queued()));
}

// --- snapshots --------------------------------------------------------------

void StepSlices::end_at(const EndAt& end) {
  end_ = end.step;
  for (const auto& [slice, owned] : slices_)
    show(slice);
}

void StepSlices::snapshot(const SnapshotRequest& request) {
  wanted_ = request.version;
  for (const auto& [slice, owned] : slices_)
    checkpoint(slice);
}

/// Nobody overwrites the newest version before the next one is pulled from
/// here, which is after this.
void StepSlices::checkpoint(uint32_t slice) {
  const auto version = slices_.at(slice)->version;
  if (wanted_ == version && serves(slice)
      && shard_.store->newest(slice) - version < 2)
    send_snapshot(shard_, slice, version, version, Shown::all);
}

void StepSlices::show(uint32_t slice) {
  if (!serves(slice))
    return;
  const auto& store = *shard_.store;
  for (auto version = store.oldest(slice); version <= store.newest(slice);
       ++version)
    if (version == end_ || shard_.job.is_snapshot_version(version))
      send_snapshot(shard_, slice, version, version,
                    version == std::min(end_, shard_.job.total_steps)
                      ? Shown::last
                      : Shown::evaluated);
}

} // namespace troupe
