#include "actors/stage/split_role.hpp"

#include "actors/job/beginning.hpp"
#include "actors/job/stage_mesh.hpp"
#include "actors/links/link_proxy.hpp"
#include "actors/role/behavior.hpp"
#include "actors/role/link_terms.hpp"
#include "actors/role/seal.hpp"
#include "kernels/base/error.hpp"
#include "kernels/base/require.hpp"
#include "kernels/base/seconds_since.hpp"
#include "monitoring/cable_names.hpp"
#include "monitoring/names.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>
#include <thread>

namespace troupe {
namespace {

/// Others are not worth their place in a flight recorder.
constexpr std::chrono::microseconds shortest_wait{20};

/// Else it is of sums that shards make up, or of slices that they keep.
bool is_of_passes(StageStream stream) {
  return stream == StageStream::forward || stream == StageStream::backward
         || stream == StageStream::parameters
         || stream == StageStream::partials;
}

StageCourse::Owners owners_of(const Job& job, const Mesh& mesh) {
  return job.plan.served ? StageCourse::Owners::shards
         : mesh.data > 1 ? StageCourse::Owners::peers
                         : StageCourse::Owners::stage;
}

} // namespace

SplitRole::SplitRole(stage_actor::pointer self, const RoleContext& context)
  : self_(self),
    context_(context),
    job_(*context_.job),
    mesh_(mesh_of(job_.options)),
    pipeline_(mesh_.pipeline_of(context_.role.index)),
    course_(job_.total_steps, owners_of(job_, mesh_)),
    executor_(make_role_executor(context_)),
    compute_(context_.metrics->histogram(metrics::compute_duration_seconds)),
    receive_wait_(context_.metrics->histogram(metrics::receive_wait_seconds)),
    links_(self->system(),
           {context_.links, context_.role, link_terms(job_, context_.role)}),
    outbox_(snapshot_window(),
            [this](const SnapshotSlice& x) {
              self_->send(context_.coordinator, x);
            }),
    scalars_(job_, place()) {}

void SplitRole::take_steps(SplitSteps& steps) {
  steps_ = &steps;
  peers_.emplace(job_, context_.role.index, steps.gradient_elements());
  if (is_served())
    shards_.emplace(self_, context_, steps.slices());
}

stage_actor::behavior_type SplitRole::make_behavior() {
  auto behavior = role_behavior(
    self_, context_, [this](const Propose& x) { on(x); },
    [this](const Activate& x) { on(x); },
    [this](const Pause& x) { when_active(x); },
    [this](const EndAt& x) { when_active(x); },
    [this](const SnapshotRequest& x) { when_active(x); },
    [this](const SnapshotTaken& x) { outbox_.took(x); },
    [this](const StageValues& x) { when_active(x); },
    [this](const Pulled& x) { when_active(x); });
  on_lost_peer(self_, context_.coordinator, [this](const caf::down_msg& x) {
    auto peer = links_.forget(x.source);
    if (!peer && shards_)
      peer = shards_->forget(x.source);
    if (peer)
      ask_for_links(self_, context_, gate_, *peer, why_link_ended(x.reason));
  });
  return behavior;
}

// --- epochs -----------------------------------------------------------------

/// Seals once the executor is done, so that the report is of what stands.
void SplitRole::on(const Propose& proposal) {
  if (!gate_.propose(proposal.fence))
    return;
  end_wait();
  outbox_.seal(proposal.fence);
  inbox_.clear();
  came_.clear();
  run_on(
    *executor_, self_, [this] { return steps_->held(); },
    [this, proposal](std::vector<SliceState>& held) {
      if (!gate_.is_pending(proposal.fence))
        return;
      reports_.send_again(self_, context_, proposal.committed);
      send_seal(self_, context_, proposal.fence, std::move(held),
                course_.version());
    });
}

void SplitRole::on(const Activate& activation) {
  if (!gate_.enter(activation.fence))
    return;
  outbox_.enter(activation.rollback);
  reports_.enter(activation.rollback);
  if (context_.links)
    keep_links_to(activation);
  auto members = activation.members;
  std::erase_if(members, [this](const Member& x) { return !needs_link_to(x); });
  links_.connect(
    self_, activation.fence, members, context_.role.kind,
    [this, activation] { connect_shards(activation); },
    [this](RoleId peer, const std::string& line) {
      ask_for_links(self_, context_, gate_, peer, line);
    });
}

/// Who holds the same sums gradients with this one, if no shard does, and what
/// is of all virtual ranks.
bool SplitRole::needs_link_to(const Member& member) const {
  const auto other = member.role.index;
  if (member.role.kind != context_.role.kind
      || !mesh_.are_linked(context_.role.index, other, goes_round()))
    return false;
  return mesh_.pipeline_of(other) == pipeline_ || !is_served()
         || job_.goes_in_lock_step();
}

void SplitRole::connect_shards(const Activate& activation) {
  if (!shards_ || !gate_.is_pending(activation.fence))
    return enter(activation);
  if (const auto why = unlinkable(job_, context_.role, activation.members);
      !why.empty())
    return tell_trouble(why);
  shards_->connect(
    activation, [this, activation] { enter(activation); },
    [this](RoleId shard, const std::string& line) {
      ask_for_links(self_, context_, gate_, shard, line);
    });
}

/// Who is no member may still read memory that is written again.
void SplitRole::keep_links_to(const Activate& activation) {
  std::set<std::string> names;
  for (const auto& member : activation.members)
    names.insert(to_string(member.role));
  context_.links->keep_only(names);
}

void SplitRole::enter(const Activate& activation) {
  if (!gate_.is_pending(activation.fence))
    return;
  if (activation.rollback)
    course_.end_at(job_.total_steps);
  run_on(
    *executor_, self_, [this, activation] { return go_to(activation); },
    [this, activation](const std::string& trouble) {
      if (!gate_.is_pending(activation.fence))
        return;
      if (!trouble.empty())
        return tell_trouble(trouble);
      course_.begin_epoch(activation.version);
      const auto copies = copies_of(activation);
      missing_ = copies.missing;
      if (shards_)
        shards_->begin_epoch(activation);
      gate_.open();
      if (is_whole())
        tell_version();
      gate_.replay();
      show_if_wanted();
      give_copies(copies);
      go_on();
    });
}

/// Runs on the executor. Returns why it cannot.
std::string SplitRole::go_to(const Activate& activation) {
  try {
    if (activation.rollback && !is_served())
      steps_->reset(beginning_at(job_, activation.checkpoint));
    steps_->enter(activation.version, activation.fence.epoch);
    return {};
  } catch (const InputError& failure) {
    return failure.what();
  }
}

/// Shards tell what they have applied.
void SplitRole::tell_version() {
  if (!is_served())
    self_->send(context_.coordinator, Applied{gate_.active(), context_.role,
                                              course_.version(), 0, 0, 0});
}

void SplitRole::tell_trouble(const std::string& line) {
  self_->send(context_.coordinator,
              Trouble{context_.job_id, context_.role, line});
}

// --- what one has lost, with the memory that was to outlive it ---------------

void SplitRole::give_copies(const Copies& copies) {
  for (auto [learner, slice] : copies.given) {
    const auto copy = steps_->copy(slice, course_.version());
    send(learner, StageStream::copies, slice, copy.values);
    if (copy.state.size() > 0)
      send(learner, StageStream::copies, slice, copy.state, copy.values.size());
  }
}

/// Slice by slice, so that little is held. With the last one it takes part.
void SplitRole::install_if_there() {
  for (auto slice : missing_) {
    const auto values = came(StageStream::copies, slice);
    if (!values)
      continue;
    run(
      [this, slice, version = course_.version(), copy = *values] {
        steps_->install(slice, version, copy);
        return slice;
      },
      [this](uint32_t installed) {
        missing_.erase(installed);
        if (is_whole())
          take_part();
      });
  }
}

void SplitRole::take_part() {
  run(
    [this, version = course_.version(), epoch = gate_.active().epoch] {
      steps_->enter(version, epoch);
      return true;
    },
    [this](bool) {
      tell_version();
      show_if_wanted();
    });
}

// --- what comes and goes ----------------------------------------------------

/// A peer that is faster may be a step ahead.
void SplitRole::on(const StageValues& values) {
  if (values.step != course_.version() && values.step != course_.version() + 1)
    return;
  const auto total = total_of(values);
  if (total && inbox_.put(values, *total))
    go_on();
  else
    refuse_what_came();
}

void SplitRole::refuse_what_came() {
  self_->send(context_.coordinator,
              LinkLost{gate_.active(), context_.role,
                       to_string(context_.role)
                         + " was sent what does not fit its part of the "
                           "model"});
}

/// It has no task that reads what this writes: it waits for all slices.
void SplitRole::on(const Pulled& message) {
  if (!shards_ || course_.phase() != StageCourse::Phase::pulling
      || !shards_->awaits(message))
    return;
  if (!shards_->take(message))
    return refuse_what_came();
  steps_->take(message.slice, message.values);
  go_on();
}

std::optional<uint64_t> SplitRole::total_of(const StageValues& values) const {
  const auto number = values.virtual_rank;
  const bool is_round = number < scalars_.rounds();
  if (is_served() && !is_of_passes(values.stream))
    return std::nullopt;
  switch (values.stream) {
    case StageStream::copies:
      return missing_.contains(number)
               ? std::optional{copy_elements(job_, number)}
               : std::nullopt;
    case StageStream::nodes:
    case StageStream::shares:
      return peers_->elements(values.stream, number);
    case StageStream::sums:
      return is_round ? std::optional{scalars_.sums_elements(number)}
                      : std::nullopt;
    case StageStream::scalars:
      return is_round ? std::optional{scalars_.scalars_elements(number)}
                      : std::nullopt;
    default:
      return elements_of(values);
  }
}

void SplitRole::send(uint32_t peer, StageStream stream, uint32_t number,
                     const TensorView& values, uint64_t begin) {
  const auto to = links_.at<stage_actor>(peer);
  for (auto& run :
       runs_of(gate_.active(), course_.version(), stream, number, values)) {
    run.begin += begin;
    self_->send(to, std::move(run));
  }
}

// --- a step -----------------------------------------------------------------

void SplitRole::go_on() {
  if (!gate_.is_active())
    return;
  if (!is_whole())
    return install_if_there();
  if (!course_.is_due())
    return;
  do_what_is_due();
  book_wait();
}

void SplitRole::do_what_is_due() {
  switch (course_.phase()) {
    case StageCourse::Phase::waiting:
      return begin_step();
    case StageCourse::Phase::pulling:
      return begin_if_pulled();
    case StageCourse::Phase::passing:
      return pass_if_there(course_.pass());
    case StageCourse::Phase::giving:
      return give();
    case StageCourse::Phase::adding:
      return add_if_there();
    case StageCourse::Phase::taking:
      return complete_if_there();
    case StageCourse::Phase::summing:
      return sum_if_there();
    case StageCourse::Phase::scaling:
      return scale_if_there();
    case StageCourse::Phase::updating:
      return update();
    case StageCourse::Phase::pushing:
      return push();
    case StageCourse::Phase::failed:
      return;
  }
}

/// What is due and was not done lacks something of another role.
void SplitRole::book_wait() {
  using enum StageCourse::Phase;
  const auto phase = course_.phase();
  const bool for_peers = phase == adding || phase == taking;
  const bool waits = course_.is_due()
                     && (for_peers || phase == pulling || phase == passing
                         || phase == summing || phase == scaling);
  if (!waits) {
    end_wait();
  } else if (!waiting_) {
    waiting_ = Clock::now();
    waits_for_peers_ = for_peers;
  }
}

/// Of gradients that peers sum complete_if_there() records the whole time.
void SplitRole::end_wait() {
  if (!waiting_)
    return;
  const auto end = Clock::now();
  const bool pulls = course_.phase() == StageCourse::Phase::pulling;
  waited_ += end - *waiting_;
  if (context_.flight && !waits_for_peers_ && end - *waiting_ >= shortest_wait)
    context_.flight->record(pulls ? Activity::pull : Activity::receive,
                            *waiting_, end, course_.version() + 1);
  waiting_.reset();
}

void SplitRole::begin_step() {
  const auto step = course_.version();
  losses_.clear();
  came_.clear();
  auto passes = passes_of(step);
  peers_->begin(step);
  scalars_.begin();
  course_.begin(std::move(passes), !scalars_.is_done());
  if (shards_)
    shards_->pull(gate_.active(), step);
  began_ = Clock::now();
  waited_ = {};
  run(
    [this, step] {
      if (const auto delay = context_.faults->delay(); delay.count() > 0)
        std::this_thread::sleep_for(delay);
      steps_->begin_step(step);
      return true;
    },
    [this](bool) { course_.done(); });
}

void SplitRole::begin_if_pulled() {
  if (!shards_->has_all())
    return;
  end_wait();
  course_.pulled();
  go_on();
}

/// Losses leave first: who takes the step anew tells of them again, but a step
/// that shards have is not taken anew.
void SplitRole::push() {
  if (!has_sound_losses())
    return;
  if (is_last())
    report_losses();
  course_.take();
  run([this] { return steps_->sums_to_push(); },
      [this](const SplitSteps::ToPush& summed) {
        if (!summed.trouble.empty())
          return fail(summed.trouble);
        shards_->push(gate_.active(), course_.version(), summed.sums);
        book_step();
        course_.done();
      });
}

/// Peers add up a share of the gradient each: they are given what this role has
/// of theirs ...
void SplitRole::give() {
  summing_ = Clock::now();
  course_.take();
  run([this, sum = peers_->step()] { return steps_->give(*sum); },
      [this](const std::vector<PeerSum::Given>& given) {
        course_.done();
        for (const auto& one : given)
          send(one.pipeline * mesh_.each() + place(), StageStream::nodes,
               peers_->number_of_node(one.chunk, one.node), one.values);
      });
}

/// ... it adds up its own, and gives it to them ...
void SplitRole::add_if_there() {
  if (!have_come(StageStream::nodes, peers_->awaited_nodes()))
    return;
  course_.take();
  run(
    [this, sum = peers_->step(), nodes = std::exchange(came_, {})] {
      return steps_->add(*sum, *peers_, nodes);
    },
    [this](const std::vector<TensorView>& shares) {
      course_.done();
      for (uint32_t chunk = 0; chunk < shares.size(); ++chunk)
        for (auto peer : mesh_.peers_of(context_.role.index))
          send(peer, StageStream::shares,
               peers_->number_of_share(chunk, pipeline_), shares[chunk]);
    });
}

/// ... and has all of it with theirs.
void SplitRole::complete_if_there() {
  if (!have_come(StageStream::shares, peers_->awaited_shares()))
    return;
  course_.take();
  run(
    [this, shares = std::exchange(came_, {})] {
      steps_->complete(*peers_, shares);
      return true;
    },
    [this](bool) {
      course_.done();
      if (context_.flight)
        context_.flight->record(Activity::reduce, summing_, Clock::now(),
                                course_.version() + 1);
    });
}

/// All of them; what is here is kept until the others are.
bool SplitRole::have_come(StageStream stream,
                          const std::vector<uint32_t>& numbers) {
  for (auto number : numbers)
    if (!came_.contains(number))
      if (auto values = came(stream, number))
        came_.emplace(number, std::move(*values));
  return came_.size() == numbers.size();
}

/// A round goes back through the roles with sums ...
void SplitRole::sum_if_there() {
  const auto round = scalars_.round();
  TensorView later;
  if (!is_last()) {
    auto values = came(StageStream::sums, round);
    if (!values)
      return;
    later = std::move(*values);
  }
  course_.take();
  run(
    [this, later, kind = scalars_.kind(), known = scalars_.scalars()] {
      return StageScalars::join(steps_->block_sums(kind, known), later);
    },
    [this, round](const TensorView& sums) {
      course_.done();
      if (is_first())
        take_scalars(
          scalars_.decide(sums, job_.sampling.step(course_.version()).count));
      else
        send(context_.role.index - 1, StageStream::sums, round, sums);
    });
}

/// ... then forward with what was made of them.
void SplitRole::scale_if_there() {
  const auto values = came(StageStream::scalars, scalars_.round());
  if (!values)
    return;
  take_scalars(*values);
  go_on();
}

void SplitRole::take_scalars(const TensorView& scalars) {
  const auto round = scalars_.round();
  if (!is_last())
    send(context_.role.index + 1, StageStream::scalars, round, scalars);
  kernels::require(scalars_.take(scalars), "scalars of another job");
  course_.scaled(scalars_.is_done());
}

bool SplitRole::has_sound_losses() {
  for (const auto& loss : losses_)
    if (!std::isfinite(loss.loss_sum)) {
      fail("NaN loss at step " + std::to_string(course_.version() + 1)
           + " in virtual rank " + std::to_string(loss.virtual_rank)
           + ": lower --lr or look at the data");
      return false;
    }
  return true;
}

void SplitRole::update() {
  if (!has_sound_losses())
    return;
  course_.take();
  context_.faults->pass(StepPhase::reduce);
  run(
    [this, version = course_.version()] {
      const SpanTimer timer{context_.flight.get(), Activity::update,
                            version + 1};
      return steps_->update(scalars_.scalars());
    },
    [this](const std::string& trouble) {
      if (trouble.empty())
        finish_step();
      else
        fail(trouble);
    });
}

void SplitRole::fail(const std::string& trouble) {
  course_.fail();
  tell_trouble(trouble);
}

void SplitRole::book_step() {
  const auto waited = std::chrono::duration<double>(waited_).count();
  receive_wait_.observe(waited);
  compute_.observe(std::max(0.0, seconds_since(began_) - waited));
}

void SplitRole::report_losses() {
  reports_.send(self_, context_,
                {gate_.newest(), context_.role, course_.version(), losses_});
}

void SplitRole::finish_step() {
  book_step();
  if (is_last())
    report_losses();
  course_.done();
  tell_version();
  show_if_wanted();
}

// --- snapshots and the end --------------------------------------------------

void SplitRole::show_if_wanted() {
  const auto version = course_.version();
  if (version == course_.end() || version == wanted_
      || job_.is_snapshot_version(version))
    show(version);
}

/// Nothing is updated before it, which the executor would do after it. Those of
/// other pipelines or groups would show the same, and shards show what they
/// keep.
void SplitRole::show(uint64_t version) {
  if (pipeline_ > 0 || !is_whole() || is_served())
    return;
  run_on(
    *executor_, self_, [this, version] { return steps_->snapshot(version); },
    [this](const std::vector<SnapshotSlice>& slices) {
      for (const auto& slice : slices)
        outbox_.add(slice);
    });
}

void SplitRole::on(const SnapshotRequest& request) {
  if (request.version > course_.version() || !is_whole())
    wanted_ = request.version;
  else
    show(request.version);
}

/// A step that the others may have begun is taken to its end.
void SplitRole::on(const Pause&) {
  course_.pause();
  self_->send(context_.coordinator,
              Paused{gate_.active(), context_.role, course_.next_step()});
}

void SplitRole::on(const EndAt& end) {
  course_.end_at(end.step);
  if (course_.version() == end.step)
    show(end.step);
  go_on();
}

} // namespace troupe
