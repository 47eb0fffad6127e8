#include "actors/stage/stage.hpp"

#include "actors/control/peer_directory.hpp"
#include "actors/job/beginning.hpp"
#include "actors/job/stage_layers.hpp"
#include "actors/links/link_proxy.hpp"
#include "actors/role/behavior.hpp"
#include "actors/role/epoch_gate.hpp"
#include "actors/role/link_terms.hpp"
#include "actors/role/seal.hpp"
#include "actors/role/snapshot_outbox.hpp"
#include "actors/stage/inbox.hpp"
#include "actors/stage/peers.hpp"
#include "actors/stage/scalar_rounds.hpp"
#include "actors/stage/steps.hpp"
#include "kernels/base/error.hpp"
#include "kernels/base/require.hpp"
#include "kernels/base/seconds_since.hpp"
#include "kernels/base/steady_clock.hpp"
#include "monitoring/names.hpp"
#include "strategies/stage_course.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>

namespace troupe {
namespace {

Activity activity_of(StagePass pass) {
  return pass == StagePass::forward            ? Activity::forward
         : pass == StagePass::backward_weights ? Activity::backward_weights
                                               : Activity::backward;
}

/// Does what is due (strategies/stage_course.hpp) once what that needs of its
/// neighbours has come: others' parameters before a chunk's first pass, where
/// it uses some; what crosses before a pass; sums and scalars before an update.
/// Beside other pipelines it needs, too, what its peers there sum up, before
/// it knows the gradient (StagePeers).
class StageState {
public:
  static inline const char* name = "stage";

  StageState(stage_actor::pointer self, RoleContext context,
             std::shared_ptr<ShardStore> store)
    : self_(self),
      context_(std::move(context)),
      job_(*context_.job),
      compute_(context_.metrics->histogram(metrics::compute_duration_seconds)),
      mesh_(mesh_of(job_.options)),
      pipeline_(mesh_.pipeline_of(context_.role.index)),
      peers_(self->system(),
             {context_.links, context_.role, link_terms(job_, context_.role)}),
      outbox_(snapshot_window(),
              [this](const SnapshotSlice& x) {
                self_->send(context_.coordinator, x);
              }),
      scalars_(job_, mesh_.stage_of(context_.role.index)),
      course_(job_.total_steps, mesh_.data > 1),
      executor_(make_role_executor(context_)),
      steps_(context_, *executor_, std::move(store)),
      shared_(steps_.chunks()),
      data_peers_(job_, context_.role.index, steps_.gradient_elements()) {}

  ~StageState() {
    executor_.reset(); // its task uses what is destroyed below
  }

  stage_actor::behavior_type make_behavior() {
    auto behavior = role_behavior(
      self_, context_, [this](const Propose& x) { on(x); },
      [this](const Activate& x) { on(x); },
      [this](const Pause& x) { when_active(x); },
      [this](const EndAt& x) { when_active(x); },
      [this](const SnapshotRequest& x) { when_active(x); },
      [this](const SnapshotTaken& x) { outbox_.took(x); },
      [this](const StageValues& x) { when_active(x); });
    on_lost_peer(self_, context_.coordinator, [this](const caf::down_msg& x) {
      if (auto peer = peers_.forget(x.source))
        ask_for_links(self_, context_, gate_, *peer, why_link_ended(x.reason));
    });
    return behavior;
  }

private:
  // --- epochs ---------------------------------------------------------------

  template <class Message>
  void when_active(const Message& message) {
    gate_.admit(message.fence, [this, message] { on(message); });
  }

  /// Seals once the executor is done, so that the report is of what stands.
  void on(const Propose& proposal) {
    if (!gate_.propose(proposal.fence))
      return;
    outbox_.seal(proposal.fence);
    inbox_.clear();
    came_.clear();
    run_on(
      *executor_, self_, [this] { return steps_.held(); },
      [this, fence = proposal.fence](std::vector<SliceState>& held) {
        if (gate_.is_sealing(fence))
          send_seal(self_, context_, fence, std::move(held), course_.version());
      });
  }

  void on(const Activate& activation) {
    if (!gate_.enter(activation.fence))
      return;
    outbox_.enter(activation.rollback);
    if (context_.links)
      keep_links_to(activation);
    auto members = activation.members;
    std::erase_if(members, [this](const Member& x) {
      return !mesh_.are_linked(context_.role.index, x.role.index,
                               steps_.chunks() > 1);
    });
    peers_.connect(
      self_, activation.fence, members, RoleKind::stage,
      [this, activation] { enter(activation); },
      [this](RoleId peer, const std::string& line) {
        ask_for_links(self_, context_, gate_, peer, line);
      });
  }

  /// Who is no member may still read memory that is written again.
  void keep_links_to(const Activate& activation) {
    std::set<std::string> names;
    for (const auto& member : activation.members)
      names.insert(to_string(member.role));
    context_.links->keep_only(names);
  }

  void enter(const Activate& activation) {
    if (!gate_.is_sealing(activation.fence))
      return;
    if (activation.rollback)
      course_.end_at(job_.total_steps);
    run_on(
      *executor_, self_, [this, activation] { return go_to(activation); },
      [this, activation](const std::string& trouble) {
        if (!gate_.is_sealing(activation.fence))
          return;
        if (!trouble.empty())
          return tell_trouble(trouble);
        course_.begin_epoch(activation.version);
        missing_ = missing_in(activation);
        gate_.open();
        if (missing_.empty())
          tell_version();
        gate_.replay();
        show_if_wanted();
        give_copies(activation);
        go_on();
      });
  }

  // --- what one has lost, with the memory that was to outlive it
  // ---------------

  /// The slices that this stage gets a copy of.
  std::set<uint32_t> missing_in(const Activate& activation) const {
    std::set<uint32_t> out;
    for (const auto& chain : activation.chains)
      if (!activation.rollback
          && std::ranges::count(chain.learners, context_.role.index) > 0)
        out.insert(chain.slice);
    return out;
  }

  /// The first who holds a slice gives it to those that do not.
  void give_copies(const Activate& activation) {
    for (const auto& chain : activation.chains) {
      if (activation.rollback || chain.replicas.empty()
          || chain.replicas.front() != context_.role.index)
        continue;
      for (auto learner : chain.learners) {
        const auto copy = steps_.copy(chain.slice, activation.version);
        send(learner, StageStream::copies, chain.slice, copy.values);
        if (copy.state.size() > 0)
          send(learner, StageStream::copies, chain.slice, copy.state,
               copy.values.size());
      }
    }
  }

  /// Slice by slice, so that little is held. With the last one it takes part.
  void install_if_there() {
    const auto version = course_.version();
    for (auto slice : missing_) {
      const auto values = came(StageStream::copies, slice);
      if (!values)
        continue;
      const auto copy = *values;
      run(
        [this, slice, version, copy] {
          steps_.install(slice, version, copy);
          return slice;
        },
        [this](uint32_t installed) {
          missing_.erase(installed);
          if (missing_.empty())
            take_part();
        });
    }
  }

  void take_part() {
    run(
      [this, version = course_.version(), epoch = gate_.active().epoch] {
        steps_.enter(version, epoch);
        return true;
      },
      [this](bool) {
        tell_version();
        show_if_wanted();
      });
  }

  /// Runs on the executor. Returns why it cannot.
  std::string go_to(const Activate& activation) {
    try {
      if (activation.rollback)
        steps_.reset(beginning_at(job_, activation.checkpoint));
      steps_.enter(activation.version, activation.fence.epoch);
      return {};
    } catch (const InputError& failure) {
      return failure.what();
    }
  }

  void tell_version() {
    self_->send(context_.coordinator, Applied{gate_.active(), context_.role,
                                              course_.version(), 0, 0, 0});
  }

  void tell_trouble(const std::string& line) {
    self_->send(context_.coordinator,
                Trouble{context_.job_id, context_.role, line});
  }

  // --- what comes -----------------------------------------------------------

  void on(const StageValues& values) {
    if (values.step != course_.version()
        && values.step != course_.version() + 1)
      return;
    const auto total = total_of(values);
    if (total && inbox_.put(values, *total))
      go_on();
    else
      self_->send(context_.coordinator,
                  LinkLost{gate_.active(), context_.role,
                           to_string(context_.role)
                             + " was sent what does not fit its layers"});
  }

  uint64_t numbers_of(StageStream stream) const {
    const bool round = stream == StageStream::sums
                       || stream == StageStream::scalars;
    return round ? scalars_.rounds()
                 : uint64_t{job_.options.virtual_ranks} * steps_.chunks();
  }

  /// Elements of a crossing; nothing where there is none of that number.
  std::optional<uint64_t> total_of(const StageValues& values) const {
    const auto number = values.virtual_rank;
    if (values.stream == StageStream::copies)
      return missing_.contains(number)
               ? std::optional{steps_.copy_elements(number)}
               : std::nullopt;
    if (values.stream == StageStream::nodes
        || values.stream == StageStream::shares)
      return data_peers_.elements(values.stream, number);
    if (number >= numbers_of(values.stream))
      return std::nullopt;
    const auto ranks = job_.options.virtual_ranks;
    const auto rows = rows_of(values.step, number % ranks);
    switch (values.stream) {
      case StageStream::forward:
        return forward_elements(job_.graph, steps_.part(number / ranks).in,
                                rows);
      case StageStream::backward:
        return rows == 0
                 ? 0
                 : backward_elements(job_.graph,
                                     steps_.part(number / ranks).out, rows);
      case StageStream::parameters:
        return parameter_elements(job_.graph, steps_.part(number / ranks).in);
      case StageStream::sums:
        return scalars_.sums_elements(number);
      case StageStream::scalars:
        return scalars_.scalars_elements(number);
      default: // of tensor members
        return std::nullopt;
    }
  }

  uint32_t rows_of(uint64_t step, uint32_t rank) const {
    return job_.sampling.rank(step, rank).count;
  }

  /// What came of the step in hand; nothing yet: go_on() asks again.
  std::optional<TensorView> came(StageStream stream, uint32_t number) {
    return inbox_.take(course_.version(), stream, number);
  }

  /// The stages beside this one in its pipeline; those at the ends are beside
  /// each other.
  uint32_t after() const {
    return is_last() ? mesh_.member(pipeline_, 0) : context_.role.index + 1;
  }
  uint32_t before() const {
    return is_first() ? mesh_.member(pipeline_, mesh_.stages - 1)
                      : context_.role.index - 1;
  }
  uint32_t stage() const { return mesh_.stage_of(context_.role.index); }
  bool is_first() const { return stage() == 0; }
  bool is_last() const { return stage() + 1 == mesh_.stages; }

  /// Under which a rank's values travel, to a chunk of a stage.
  uint32_t number_of(uint32_t chunk, uint32_t rank) const {
    return chunk * job_.options.virtual_ranks + rank;
  }
  /// To the part after a chunk's: its next one where the pipeline begins again.
  void send_after(uint32_t chunk, StageStream stream, uint32_t rank,
                  const TensorView& values) {
    send(after(), stream, number_of(chunk + (is_last() ? 1 : 0), rank), values);
  }
  void send_before(uint32_t chunk, uint32_t rank, const TensorView& values) {
    send(before(), StageStream::backward,
         number_of(chunk - (is_first() ? 1 : 0), rank), values);
  }

  /// To a stage that this one is linked to, of the step in hand.
  /// `begin`: elements of the crossing that were sent before.
  void send(uint32_t peer, StageStream stream, uint32_t rank,
            const TensorView& values, uint64_t begin = 0) {
    const auto to = peers_.at<stage_actor>(peer);
    for (auto& run :
         runs_of(gate_.active(), course_.version(), stream, rank, values)) {
      run.begin += begin;
      self_->send(to, std::move(run));
    }
  }

  // --- a step ---------------------------------------------------------------

  /// Runs `work`, which is due, on the executor, then `then(result)` if the
  /// epoch lasts.
  template <class Work, class Then>
  void run(Work work, Then then) {
    run_on(*executor_, self_, std::move(work),
           [this, fence = gate_.active(),
            then = std::move(then)](auto& result) {
             if (!gate_.is_active(fence))
               return;
             then(result);
             go_on();
           });
  }

  void go_on() {
    if (!gate_.is_active())
      return;
    if (!missing_.empty())
      return install_if_there();
    if (!course_.is_due())
      return;
    switch (course_.phase()) {
      case StageCourse::Phase::waiting:
        return begin_if_there();
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
      case StageCourse::Phase::failed:
        return;
    }
  }

  void begin_if_there() {
    const auto step = course_.version();
    ranks_.clear();
    losses_.clear();
    came_.clear();
    const auto own = mesh_.ranks(pipeline_, job_.options.virtual_ranks);
    for (auto rank = own.lo; rank < own.hi; ++rank)
      if (rows_of(step, rank) > 0)
        ranks_.push_back(rank);
      else
        losses_.push_back({rank, 0, 0});
    // One without samples goes through a pipeline that has no other: so its
    // stages know of each other that they have this version.
    if (ranks_.empty())
      ranks_.push_back(own.lo);
    data_peers_.begin(step);
    for (uint32_t chunk = 0; chunk < steps_.chunks(); ++chunk) {
      const auto& part = steps_.part(chunk);
      shared_[chunk] = part.in.parameters.empty()
                       && part.out.parameters.empty();
    }
    scalars_.begin();
    const auto shape = pipeline_shape(job_.options,
                                      micro_batches(job_.options));
    course_.begin(step_actions(shape, stage(),
                               static_cast<uint32_t>(ranks_.size())),
                  !scalars_.is_done());
    began_ = Clock::now();
    run(
      [this, step] {
        if (const auto delay = context_.faults->delay(); delay.count() > 0)
          std::this_thread::sleep_for(delay);
        steps_.begin_step(step);
        return true;
      },
      [this](bool) { course_.done(); });
  }

  void pass_if_there(const StageAction& action) {
    if (!shared_[action.chunk]) {
      share_if_there(action.chunk);
      return;
    }
    const bool forward = action.pass == StagePass::forward;
    const bool for_weights = action.pass == StagePass::backward_weights;
    const auto chunk = action.chunk;
    const auto rank = ranks_[action.micro_batch];
    const auto stream = forward ? StageStream::forward : StageStream::backward;
    const bool ends = forward ? steps_.is_first(chunk) : steps_.is_last(chunk);
    TensorView input;
    if (!ends && !for_weights) {
      auto values = came(stream, number_of(chunk, rank));
      if (!values)
        return;
      input = std::move(*values);
    }
    course_.take();
    if (!for_weights)
      context_.faults->pass(forward ? StepPhase::compute : StepPhase::push);
    run(
      [this, action, rank, input, version = course_.version()] {
        const SpanTimer timer{context_.flight.get(), activity_of(action.pass),
                              version + 1, rank};
        return steps_.pass(action, rank, input.data());
      },
      [this, forward, for_weights, chunk,
       rank](const StageSteps::Pass& passed) {
        course_.done();
        if (forward && steps_.is_last(chunk))
          add_loss(passed.loss);
        else if (forward)
          send_after(chunk, StageStream::forward, rank, passed.values);
        else if (!for_weights && !steps_.is_first(chunk))
          send_before(chunk, rank, passed.values);
      });
  }

  void add_loss(const LeafLoss& loss) {
    if (loss.samples > 0)
      losses_.push_back(loss);
  }

  /// A chunk takes part in the step once it has the parameters of others that
  /// it uses, or hands on.
  void share_if_there(uint32_t chunk) {
    TensorView shared;
    if (!steps_.part(chunk).in.parameters.empty()) {
      auto values = came(StageStream::parameters, number_of(chunk, 0));
      if (!values)
        return;
      shared = std::move(*values);
    }
    course_.prepare();
    shared_[chunk] = 1;
    run([this, chunk, shared] { return steps_.share(chunk, shared.data()); },
        [this, chunk](const TensorView& shared_on) {
          course_.done();
          if (shared_on.size() > 0)
            send_after(chunk, StageStream::parameters, 0, shared_on);
        });
  }

  /// Peers add up a share of the gradient each: they are given what this
  /// pipeline has of theirs ...
  void give() {
    summing_ = Clock::now();
    course_.take();
    run([this, sum = data_peers_.step()] { return steps_.give(*sum); },
        [this](const std::vector<StageSteps::Given>& given) {
          course_.done();
          for (const auto& one : given)
            send(mesh_.member(one.pipeline, stage()), StageStream::nodes,
                 data_peers_.number_of_node(one.chunk, one.node), one.values);
        });
  }

  /// ... this stage adds up its own, and gives it to them ...
  void add_if_there() {
    if (!have_come(StageStream::nodes, data_peers_.awaited_nodes()))
      return;
    course_.take();
    run(
      [this, sum = data_peers_.step(), nodes = std::exchange(came_, {})] {
        return steps_.add(*sum, data_peers_, nodes);
      },
      [this](const std::vector<TensorView>& shares) {
        course_.done();
        for (uint32_t chunk = 0; chunk < shares.size(); ++chunk)
          for (auto peer : mesh_.peers_of(context_.role.index))
            send(peer, StageStream::shares,
                 data_peers_.number_of_share(chunk, pipeline_), shares[chunk]);
      });
  }

  /// ... and has all of it with theirs.
  void complete_if_there() {
    if (!have_come(StageStream::shares, data_peers_.awaited_shares()))
      return;
    course_.take();
    run(
      [this, shares = std::exchange(came_, {})] {
        steps_.complete(data_peers_, shares);
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
  bool have_come(StageStream stream, const std::vector<uint32_t>& numbers) {
    for (auto number : numbers)
      if (!came_.contains(number))
        if (auto values = came(stream, number))
          came_.emplace(number, std::move(*values));
    return came_.size() == numbers.size();
  }

  /// A round goes back through the stages with sums ...
  void sum_if_there() {
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
        return StageScalars::join(steps_.sums(kind, known), later);
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
  void scale_if_there() {
    const auto values = came(StageStream::scalars, scalars_.round());
    if (!values)
      return;
    take_scalars(*values);
    go_on();
  }

  void take_scalars(const TensorView& scalars) {
    const auto round = scalars_.round();
    if (!is_last())
      send(context_.role.index + 1, StageStream::scalars, round, scalars);
    kernels::require(scalars_.take(scalars), "scalars of another job");
    course_.scaled(scalars_.is_done());
  }

  void update() {
    for (const auto& loss : losses_)
      if (!std::isfinite(loss.loss_sum)) {
        fail("NaN loss at step " + std::to_string(course_.version() + 1)
             + " in virtual rank " + std::to_string(loss.virtual_rank)
             + ": lower --lr or look at the data");
        return;
      }
    course_.take();
    context_.faults->pass(StepPhase::reduce);
    run(
      [this, version = course_.version()] {
        const SpanTimer timer{context_.flight.get(), Activity::update,
                              version + 1};
        return steps_.update(scalars_.scalars());
      },
      [this](const std::string& trouble) {
        if (trouble.empty())
          finish_step();
        else
          fail(trouble);
      });
  }

  void fail(const std::string& trouble) {
    course_.fail();
    tell_trouble(trouble);
  }

  void finish_step() {
    compute_.observe(seconds_since(began_));
    if (is_last())
      self_->send(context_.coordinator,
                  LeafReport{gate_.active(), context_.role, course_.version(),
                             losses_, 0, false});
    course_.done();
    tell_version();
    show_if_wanted();
  }

  // --- snapshots and the end ------------------------------------------------

  void show_if_wanted() {
    const auto version = course_.version();
    if (version == course_.end() || version == wanted_
        || job_.is_snapshot_version(version))
      show(version);
  }

  /// Nothing is updated before it, which the executor would do after it. The
  /// stages of other pipelines would show the same.
  void show(uint64_t version) {
    if (pipeline_ > 0 || !missing_.empty())
      return;
    run_on(
      *executor_, self_, [this, version] { return steps_.snapshot(version); },
      [this](const std::vector<SnapshotSlice>& slices) {
        for (const auto& slice : slices)
          outbox_.add(slice);
      });
  }

  void on(const SnapshotRequest& request) {
    if (request.version > course_.version() || !missing_.empty())
      wanted_ = request.version;
    else
      show(request.version);
  }

  /// A step that the first stage has begun is taken to its end.
  void on(const Pause&) {
    course_.pause();
    self_->send(context_.coordinator,
                Paused{gate_.active(), context_.role, course_.next_step()});
  }

  void on(const EndAt& end) {
    course_.end_at(end.step);
    if (course_.version() == end.step)
      show(end.step);
    go_on();
  }

  using Clock = SteadyClock;

  stage_actor::pointer self_;
  RoleContext context_;
  const Job& job_;
  Histogram& compute_;
  Mesh mesh_;
  uint32_t pipeline_;   ///< of which this stage is one
  PeerDirectory peers_; ///< the stages that it is linked to
  EpochGate gate_;
  SnapshotOutbox outbox_;
  StageInbox inbox_;
  StageScalars scalars_;
  StageCourse course_;
  uint64_t wanted_ = ~uint64_t{0}; ///< a version to show
  std::vector<uint32_t> ranks_;    ///< of the step that have samples
  std::vector<LeafLoss> losses_;
  Clock::time_point began_;
  std::shared_ptr<Executor> executor_;
  StageSteps steps_;
  std::vector<uint8_t> shared_; ///< by chunk: it has others' parameters
  StagePeers data_peers_; ///< the stages of other pipelines with its layers
  PeerValues came_;       ///< from them, until all have
  std::set<uint32_t> missing_; ///< slices that a copy is awaited of
  Clock::time_point summing_;
};

} // namespace

stage_actor spawn_stage(caf::actor_system& system, RoleContext context,
                        std::shared_ptr<ShardStore> store) {
  return system.spawn<stage_actor::stateful_impl<StageState>>(
    std::move(context), std::move(store));
}

} // namespace troupe
