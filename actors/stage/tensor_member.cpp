#include "actors/stage/tensor_member.hpp"

#include "actors/control/peer_directory.hpp"
#include "actors/job/beginning.hpp"
#include "actors/job/stage_mesh.hpp"
#include "actors/links/link_proxy.hpp"
#include "actors/role/behavior.hpp"
#include "actors/role/epoch_gate.hpp"
#include "actors/role/link_terms.hpp"
#include "actors/role/seal.hpp"
#include "actors/role/snapshot_outbox.hpp"
#include "actors/stage/inbox.hpp"
#include "actors/stage/peers.hpp"
#include "actors/stage/scalar_rounds.hpp"
#include "actors/stage/tensor_steps.hpp"
#include "kernels/base/error.hpp"
#include "kernels/base/require.hpp"
#include "kernels/base/seconds_since.hpp"
#include "kernels/base/steady_clock.hpp"
#include "monitoring/names.hpp"
#include "strategies/stage_course.hpp"

#include <chrono>
#include <cmath>
#include <set>
#include <string>
#include <thread>
#include <utility>

namespace troupe {
namespace {

/// Does what is due (strategies/stage_course.hpp). A step's passes are the runs
/// between two sums over the members, `chunk` of an action counting those of a
/// micro-batch: each but the first waits for all others' partial sums. Beside
/// other groups it needs, too, what its peers there sum up, before it knows the
/// gradient (StagePeers).
class TensorState {
public:
  static inline const char* name = "tensor";

  TensorState(stage_actor::pointer self, RoleContext context,
              std::shared_ptr<ShardStore> store)
    : self_(self),
      context_(std::move(context)),
      job_(*context_.job),
      compute_(context_.metrics->histogram(metrics::compute_duration_seconds)),
      mesh_(mesh_of(job_.options)),
      group_(mesh_.pipeline_of(context_.role.index)),
      own_(mesh_.slice_of(context_.role.index)),
      peers_(self->system(),
             {context_.links, context_.role, link_terms(job_, context_.role)}),
      outbox_(snapshot_window(),
              [this](const SnapshotSlice& x) {
                self_->send(context_.coordinator, x);
              }),
      scalars_(job_, own_),
      course_(job_.total_steps, mesh_.data > 1),
      executor_(make_role_executor(context_)),
      steps_(context_, *executor_, std::move(store)),
      data_peers_(job_, context_.role.index,
                  {steps_.replica().layout().total}) {}

  ~TensorState() {
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
      return !mesh_.are_linked(context_.role.index, x.role.index, false);
    });
    peers_.connect(
      self_, activation.fence, members, RoleKind::tensor,
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
        const auto copies = copy_duties(activation, context_.role.index);
        missing_.clear();
        if (copies.learns)
          missing_.insert(steps_.slices().begin(), steps_.slices().end());
        gate_.open();
        if (missing_.empty())
          tell_version();
        gate_.replay();
        show_if_wanted();
        give_copies(copies.learners);
        go_on();
      });
  }

  // --- what one has lost, with the memory that was to outlive it ------------

  void give_copies(const std::set<uint32_t>& learners) {
    for (auto learner : learners)
      for (auto slice : steps_.slices()) {
        const auto copy = steps_.copy(slice, course_.version());
        send(learner, StageStream::copies, slice, copy.values);
        if (copy.state.size() > 0)
          send(learner, StageStream::copies, slice, copy.state,
               copy.values.size());
      }
  }

  /// Slice by slice, so that little is held. With the last one it takes part.
  void install_if_there() {
    const auto version = course_.version();
    for (auto slice : missing_) {
      const auto copy = came(StageStream::copies, slice);
      if (!copy)
        continue;
      run(
        [this, slice, version, values = *copy] {
          steps_.install(slice, version, values);
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

  /// A member that is faster may be a step ahead.
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
                             + " was sent what does not fit its slices"});
  }

  uint32_t members() const { return mesh_.tensor; } ///< of the group
  uint32_t ranks() const { return job_.options.virtual_ranks; }

  /// Under which a member's partial sum travels, of one of a rank's sums.
  uint32_t number_of(uint32_t sum, uint32_t member, uint32_t rank) const {
    return (sum * members() + member) * ranks() + rank;
  }

  uint64_t numbers_of(StageStream stream) const {
    switch (stream) {
      case StageStream::partials:
        return uint64_t{steps_.sums()} * members() * ranks();
      case StageStream::sums:
      case StageStream::scalars:
        return scalars_.rounds();
      default:
        return 0;
    }
  }

  /// Elements of a crossing; nothing where there is none of that number.
  std::optional<uint64_t> total_of(const StageValues& values) const {
    const auto number = values.virtual_rank;
    if (values.stream == StageStream::copies)
      return missing_.contains(number)
               ? std::optional{copy_elements(job_, number)}
               : std::nullopt;
    if (values.stream == StageStream::nodes
        || values.stream == StageStream::shares)
      return data_peers_.elements(values.stream, number);
    if (number >= numbers_of(values.stream))
      return std::nullopt;
    switch (values.stream) {
      case StageStream::partials:
        return steps_.replica().sum_elements(
          number / (members() * ranks()),
          job_.sampling.rank(values.step, number % ranks()).count);
      case StageStream::sums:
        return scalars_.sums_elements(number);
      default:
        return scalars_.scalars_elements(number);
    }
  }

  /// What came of the step in hand; nothing yet: go_on() asks again.
  std::optional<TensorView> came(StageStream stream, uint32_t number) {
    return inbox_.take(course_.version(), stream, number);
  }

  /// All others' partial sums, by member; nothing as long as one is missing.
  std::optional<std::vector<TensorView>> partials_of(uint32_t sum,
                                                     uint32_t rank) {
    for (uint32_t member = 0; member < members(); ++member)
      if (member != own_
          && !inbox_.has(course_.version(), StageStream::partials,
                         number_of(sum, member, rank)))
        return std::nullopt;
    std::vector<TensorView> partials(members());
    for (uint32_t member = 0; member < members(); ++member)
      if (member != own_)
        partials[member] = *came(StageStream::partials,
                                 number_of(sum, member, rank));
    return partials;
  }

  bool is_first() const { return own_ == 0; }
  bool is_last() const { return own_ + 1 == members(); }

  /// To another member, of the step in hand.
  /// `begin`: elements of the crossing that were sent before.
  void send(uint32_t peer, StageStream stream, uint32_t number,
            const TensorView& values, uint64_t begin = 0) {
    const auto to = peers_.at<stage_actor>(peer);
    for (auto& run :
         runs_of(gate_.active(), course_.version(), stream, number, values)) {
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
        return begin_step();
      case StageCourse::Phase::passing:
        return pass_if_there(course_.pass());
      case StageCourse::Phase::summing:
        return sum_if_there();
      case StageCourse::Phase::scaling:
        return scale_if_there();
      case StageCourse::Phase::updating:
        return update();
      case StageCourse::Phase::giving:
        return give();
      case StageCourse::Phase::adding:
        return add_if_there();
      case StageCourse::Phase::taking:
        return complete_if_there();
      case StageCourse::Phase::failed:
        return;
    }
  }

  void begin_step() {
    const auto step = course_.version();
    losses_.clear();
    came_.clear();
    std::vector<StageAction> actions;
    const auto share = mesh_.ranks(group_, ranks());
    for (auto rank = share.lo; rank < share.hi; ++rank)
      if (job_.sampling.rank(step, rank).count > 0)
        for (uint32_t sum = 0; sum <= steps_.sums(); ++sum)
          actions.push_back({StagePass::forward, rank, sum});
      else
        losses_.push_back({rank, 0, 0});
    // A group without samples takes part in one sum of nothing: so its members
    // know of each other that they have this version.
    if (actions.empty())
      actions = {{StagePass::forward, share.lo, 0},
                 {StagePass::forward, share.lo, 1}};
    data_peers_.begin(step);
    scalars_.begin();
    course_.begin(std::move(actions), !scalars_.is_done());
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
    const auto rank = action.micro_batch;
    const auto sum = action.chunk; // that the pass goes up to
    std::vector<TensorView> partials;
    if (sum > 0) {
      auto all = partials_of(sum - 1, rank);
      if (!all)
        return;
      partials = std::move(*all);
    }
    course_.take();
    context_.faults->pass(sum == 0 ? StepPhase::compute : StepPhase::push);
    run(
      [this, sum, rank, partials = std::move(partials),
       version = course_.version()] {
        const SpanTimer timer{context_.flight.get(), Activity::compute,
                              version + 1, rank};
        return sum == 0 ? steps_.begin(rank) : steps_.go_on(rank, partials);
      },
      [this, sum, rank](const TensorSteps::Pass& passed) {
        course_.done();
        if (passed.done) {
          if (passed.loss.samples > 0)
            losses_.push_back(passed.loss);
          return;
        }
        for (uint32_t member = 0; member < members(); ++member)
          if (member != own_)
            send(mesh_.member(group_, 0, member), StageStream::partials,
                 number_of(sum, own_, rank), passed.partial);
      });
  }

  /// Peers add up a share of the gradient each: they are given what this group
  /// has of theirs ...
  void give() {
    summing_ = Clock::now();
    course_.take();
    run([this, sum = data_peers_.step()] { return steps_.give(*sum); },
        [this](const std::vector<PeerSum::Given>& given) {
          course_.done();
          for (const auto& one : given)
            send(mesh_.member(one.pipeline, 0, own_), StageStream::nodes,
                 data_peers_.number_of_node(0, one.node), one.values);
        });
  }

  /// ... this member adds up its own, and gives it to them ...
  void add_if_there() {
    if (!have_come(StageStream::nodes, data_peers_.awaited_nodes()))
      return;
    course_.take();
    run(
      [this, sum = data_peers_.step(), nodes = std::exchange(came_, {})] {
        return steps_.add(*sum, data_peers_, nodes);
      },
      [this](const TensorView& share) {
        course_.done();
        for (auto peer : mesh_.peers_of(context_.role.index))
          send(peer, StageStream::shares,
               data_peers_.number_of_share(0, group_), share);
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

  /// A round goes back through the members with sums ...
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
        return StageScalars::join(steps_.block_sums(kind, known), later);
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

  /// All members have their group's losses; the last one reports them.
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

  /// Nothing is updated before it, which the executor would do after it. Other
  /// groups would show the same.
  void show(uint64_t version) {
    if (group_ > 0 || !missing_.empty())
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

  /// A step that the others may have begun is taken to its end.
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
  uint32_t group_;      ///< of which it is one
  uint32_t own_;        ///< place in it
  PeerDirectory peers_; ///< the members that it is linked to
  EpochGate gate_;
  SnapshotOutbox outbox_;
  StageInbox inbox_;
  StageScalars scalars_;
  StageCourse course_;
  uint64_t wanted_ = ~uint64_t{0}; ///< a version to show
  std::vector<LeafLoss> losses_;
  Clock::time_point began_;
  std::shared_ptr<Executor> executor_;
  TensorSteps steps_;
  StagePeers data_peers_;      ///< the members of other groups with its slices
  PeerValues came_;            ///< from them, until all have
  std::set<uint32_t> missing_; ///< slices that a copy is awaited of
  Clock::time_point summing_;
};

} // namespace

stage_actor spawn_tensor_member(caf::actor_system& system, RoleContext context,
                                std::shared_ptr<ShardStore> store) {
  return system.spawn<stage_actor::stateful_impl<TensorState>>(
    std::move(context), std::move(store));
}

} // namespace troupe
