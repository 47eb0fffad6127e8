#include "actors/stage/stage.hpp"

#include "actors/job/stage_layers.hpp"
#include "actors/stage/peer_copies.hpp"
#include "actors/stage/split_role.hpp"
#include "actors/stage/steps.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace troupe {
namespace {

Activity activity_of(StagePass pass) {
  return pass == StagePass::forward            ? Activity::forward
         : pass == StagePass::backward_weights ? Activity::backward_weights
                                               : Activity::backward;
}

/// A role of a split model (SplitRole) whose passes need what crosses from the
/// stages beside it: others' parameters before a chunk's first one, where it
/// uses some, and values or gradients before each. Between two runs of a pass
/// are sums over the tensor members of its stage, for which it needs all
/// others' partial sums.
class StageState : public SplitRole {
public:
  static inline const char* name = "stage";

  StageState(stage_actor::pointer self, const RoleContext& context,
             std::shared_ptr<ShardStore> store)
    : SplitRole(self, context),
      stage_(mesh_.stage_of(context_.role.index)),
      steps_(context_, *executor_, std::move(store)),
      shared_(steps_.chunks()) {
    take_steps(steps_);
    for (uint32_t chunk = 0; chunk < steps_.chunks(); ++chunk)
      max_sums_ = std::max(
        max_sums_, static_cast<uint32_t>(sums_of_batch(chunk, 1).size()));
  }

  ~StageState() override { end_tasks(); }

private:
  bool goes_round() const override { return steps_.chunks() > 1; }

  /// The first who holds a slice gives it to those that do not; of a tensor
  /// member, which shows a part of what it keeps, all of that or nothing.
  Copies copies_of(const Activate& activation) const override {
    Copies out;
    if (activation.rollback || is_served()) // those chains are of shards
      return out;
    if (context_.role.kind == RoleKind::tensor) {
      const auto duties = copy_duties(activation, context_.role.index);
      for (auto slice : steps_.slices()) {
        if (duties.learns)
          out.missing.insert(slice);
        for (auto learner : duties.learners)
          out.given.emplace_back(learner, slice);
      }
      return out;
    }
    for (const auto& chain : activation.chains)
      for (auto learner : chain.learners) {
        if (learner == context_.role.index)
          out.missing.insert(chain.slice);
        if (!chain.replicas.empty()
            && chain.replicas.front() == context_.role.index)
          out.given.emplace_back(learner, chain.slice);
      }
    return out;
  }

  // --- what comes -----------------------------------------------------------

  std::optional<uint64_t>
  elements_of(const StageValues& values) const override {
    const auto number = values.virtual_rank;
    const auto rows = rows_of(values.step, number % ranks());
    if (values.stream == StageStream::partials)
      return job_.goes_in_lock_step()
               ? elements_of_statistics(values.step, number)
               : elements_of_sum(number / ranks(), rows);
    const auto chunk = number / ranks();
    if (chunk >= steps_.chunks())
      return std::nullopt;
    const auto& part = steps_.part(chunk);
    switch (values.stream) {
      case StageStream::forward:
        return forward_elements(job_.graph, part.in, rows);
      case StageStream::backward:
        return rows == 0 ? 0 : backward_elements(job_.graph, part.out, rows);
      case StageStream::parameters:
        return parameter_elements(job_.graph, part.in);
      default:
        return std::nullopt;
    }
  }

  /// The same slices of the stages beside this one in its pipeline; those at
  /// the ends are beside each other.
  uint32_t after() const { return beside((stage_ + 1) % mesh_.stages); }
  uint32_t before() const {
    return beside((stage_ + mesh_.stages - 1) % mesh_.stages);
  }
  uint32_t beside(uint32_t stage) const {
    return mesh_.member(pipeline_, stage, slice());
  }
  uint32_t slice() const { return mesh_.slice_of(context_.role.index); }

  /// Under which a rank's values travel, to a chunk of a stage.
  uint32_t number_of(uint32_t chunk, uint32_t rank) const {
    return chunk * ranks() + rank;
  }
  /// To the part after a chunk's: its next one where the pipeline begins again.
  void send_after(uint32_t chunk, StageStream stream, uint32_t rank,
                  const TensorView& values) {
    const bool ends = stage_ + 1 == mesh_.stages;
    send(after(), stream, number_of(chunk + (ends ? 1 : 0), rank), values);
  }
  void send_before(uint32_t chunk, uint32_t rank, const TensorView& values) {
    send(before(), StageStream::backward,
         number_of(chunk - (stage_ == 0 ? 1 : 0), rank), values);
  }

  // --- sums over the members of a stage -------------------------------------

  /// Of a micro-batch, in the order of its passes.
  std::vector<uint64_t> sums_of_batch(uint32_t chunk, uint32_t rows) const {
    auto out = steps_.sums_of(StagePass::forward, chunk, rows);
    const auto back = steps_.sums_of(StagePass::backward, chunk, rows);
    out.insert(out.end(), back.begin(), back.end());
    return out;
  }

  /// Under which a member's partial sum travels, to one of a chunk's sums of a
  /// rank.
  uint32_t number_of(const StageAction& action, uint32_t sum, uint32_t member,
                     uint32_t rank) const {
    if (action.pass != StagePass::forward)
      sum += static_cast<uint32_t>(
        steps_.sums_of(StagePass::forward, action.chunk, 1).size());
    const auto place = action.chunk * max_sums_ + sum;
    return (place * mesh_.tensor + member) * ranks() + rank;
  }

  /// `number`: without the rank.
  std::optional<uint64_t> elements_of_sum(uint32_t number,
                                          uint32_t rows) const {
    const auto place = number / mesh_.tensor;
    if (place >= steps_.chunks() * max_sums_)
      return std::nullopt;
    const auto sums = sums_of_batch(place / max_sums_, rows);
    const auto sum = place % max_sums_;
    return sum < sums.size() ? std::optional{sums[sum]} : std::nullopt;
  }

  /// All others' partial sums, by member; nothing as long as one is missing.
  std::optional<std::vector<TensorView>> partials_of(const StageAction& action,
                                                     uint32_t rank) {
    const auto number = [&](uint32_t member) {
      return number_of(action, action.run - 1, member, rank);
    };
    for (uint32_t member = 0; member < mesh_.tensor; ++member)
      if (member != slice()
          && !inbox_.has(course_.version(), StageStream::partials,
                         number(member)))
        return std::nullopt;
    std::vector<TensorView> partials(mesh_.tensor);
    for (uint32_t member = 0; member < mesh_.tensor; ++member)
      if (member != slice())
        partials[member] = *came(StageStream::partials, number(member));
    return partials;
  }

  void give_partial(const StageAction& action, uint32_t rank,
                    const TensorView& partial) {
    for (uint32_t member = 0; member < mesh_.tensor; ++member)
      if (member != slice())
        send(mesh_.member(pipeline_, stage_, member), StageStream::partials,
             number_of(action, action.run, slice(), rank), partial);
  }

  // --- sums over all virtual ranks ------------------------------------------

  /// Under which what a pipeline has of such a sum travels, as a partial one.
  uint32_t number_of_statistics(const StageAction& action, uint32_t sum,
                                uint32_t pipeline) const {
    const auto before = action.pass == StagePass::forward
                          ? 0
                          : steps_.statistics_of(StagePass::forward).size();
    return static_cast<uint32_t>(before + sum) * mesh_.data + pipeline;
  }

  std::optional<uint64_t> elements_of_statistics(uint64_t step,
                                                 uint32_t number) const {
    const auto pipeline = number % mesh_.data;
    auto sums = steps_.statistics_of(StagePass::forward);
    const auto back = steps_.statistics_of(StagePass::backward);
    sums.insert(sums.end(), back.begin(), back.end());
    if (number / mesh_.data >= sums.size() || pipeline == pipeline_)
      return std::nullopt;
    return steps_.statistics_elements(step, pipeline,
                                      sums[number / mesh_.data]);
  }

  /// What the other pipelines have of the sum before a pass's run, by pipeline;
  /// nothing as long as one is missing.
  std::optional<std::vector<TensorView>>
  statistics_for(const StageAction& action) {
    std::vector<TensorView> theirs(mesh_.data);
    if (action.micro_batch > 0)
      return theirs;                      // the first one took them
    std::map<uint32_t, uint32_t> numbers; // by pipeline
    for (uint32_t pipeline = 0; pipeline < mesh_.data; ++pipeline)
      if (pipeline != pipeline_
          && steps_.statistics_elements(course_.version(), pipeline, 1) > 0)
        numbers[pipeline] = number_of_statistics(action, action.run - 1,
                                                 pipeline);
    for (const auto& [pipeline, number] : numbers)
      if (!inbox_.has(course_.version(), StageStream::partials, number))
        return std::nullopt;
    for (const auto& [pipeline, number] : numbers)
      theirs[pipeline] = *came(StageStream::partials, number);
    return theirs;
  }

  void give_statistics(const StageAction& action, const TensorView& own) {
    // A pipeline without samples takes none.
    for (auto peer : mesh_.peers_of(context_.role.index))
      if (own.size() > 0
          && steps_.statistics_elements(course_.version(),
                                        mesh_.pipeline_of(peer), 1)
               > 0)
        send(peer, StageStream::partials,
             number_of_statistics(action, action.run, pipeline_), own);
  }

  // --- a step ---------------------------------------------------------------

  std::vector<StageAction> passes_of(uint64_t step) override {
    ranks_.clear();
    const auto own = mesh_.ranks(pipeline_, ranks());
    for (auto rank = own.lo; rank < own.hi; ++rank)
      if (rows_of(step, rank) > 0)
        ranks_.push_back(rank);
      else
        losses_.push_back({rank, 0, 0});
    // One without samples goes through a pipeline that has no other: so its
    // stages know of each other that they have this version.
    if (ranks_.empty())
      ranks_.push_back(own.lo);
    for (uint32_t chunk = 0; chunk < steps_.chunks(); ++chunk) {
      const auto& part = steps_.part(chunk);
      shared_[chunk] = part.in.parameters.empty()
                       && part.out.parameters.empty();
    }
    if (job_.goes_in_lock_step())
      return passes_in_lock_step(rows_of(step, ranks_.front()) > 0);
    const auto shape = pipeline_shape(job_.options,
                                      micro_batches(job_.options));
    std::vector<StageAction> runs;
    for (auto action :
         step_actions(shape, stage_, static_cast<uint32_t>(ranks_.size()))) {
      const auto rows = rows_of(step, ranks_[action.micro_batch]);
      const auto sums = steps_.sums_of(action.pass, action.chunk, rows).size();
      for (action.run = 0; action.run <= sums; ++action.run)
        runs.push_back(action);
    }
    return runs;
  }

  std::vector<StageAction> passes_in_lock_step(bool with_samples) const {
    const auto runs = [&](StagePass pass) {
      return with_samples
               ? 1 + static_cast<uint32_t>(steps_.statistics_of(pass).size())
               : 1;
    };
    return lock_step_actions(static_cast<uint32_t>(ranks_.size()),
                             runs(StagePass::forward),
                             runs(StagePass::backward));
  }

  void pass_if_there(const StageAction& action) override {
    if (!shared_[action.chunk]) {
      hand_on_if_there(action.chunk);
      return;
    }
    const auto rank = ranks_[action.micro_batch];
    if (action.run > 0 && job_.goes_in_lock_step())
      go_on_in_lock_step(action, rank);
    else if (action.run > 0)
      go_on_if_there(action, rank);
    else
      begin_if_there(action, rank);
  }

  /// In which gradients and sums go round; to shards these are pushed later.
  StepPhase phase_of_sums() const {
    return is_served() ? StepPhase::compute : StepPhase::push;
  }

  void begin_if_there(const StageAction& action, uint32_t rank) {
    const bool forward = action.pass == StagePass::forward;
    const bool for_weights = action.pass == StagePass::backward_weights;
    const auto chunk = action.chunk;
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
      context_.faults->pass(forward ? StepPhase::compute : phase_of_sums());
    run_pass(action, rank, [this, action, rank, input] {
      return steps_.pass(action, rank, input);
    });
  }

  void go_on_if_there(const StageAction& action, uint32_t rank) {
    auto partials = partials_of(action, rank);
    if (!partials)
      return;
    course_.take();
    context_.faults->pass(phase_of_sums());
    run_pass(action, rank, [this, partials = std::move(*partials)] {
      return steps_.go_on(partials);
    });
  }

  void go_on_in_lock_step(const StageAction& action, uint32_t rank) {
    auto theirs = statistics_for(action);
    if (!theirs)
      return;
    course_.take();
    context_.faults->pass(phase_of_sums());
    run_pass(action, rank, [this, action, theirs = std::move(*theirs)] {
      return steps_.go_on(action, theirs);
    });
  }

  template <class Work>
  void run_pass(const StageAction& action, uint32_t rank, Work work) {
    run(
      [this, action, rank, work = std::move(work),
       version = course_.version()] {
        const SpanTimer timer{context_.flight.get(), activity_of(action.pass),
                              version + 1, rank};
        return work();
      },
      [this, action, rank](const StageSteps::Pass& passed) {
        course_.done();
        if (passed.waits && job_.goes_in_lock_step())
          give_statistics(action, passed.values);
        else if (passed.waits)
          give_partial(action, rank, passed.values);
        else
          end_pass(action, rank, passed);
      });
  }

  void end_pass(const StageAction& action, uint32_t rank,
                const StageSteps::Pass& passed) {
    const auto chunk = action.chunk;
    if (action.pass == StagePass::forward) {
      if (steps_.is_last(chunk))
        add_loss(passed.loss);
      else
        send_after(chunk, StageStream::forward, rank, passed.values);
    } else if (action.pass != StagePass::backward_weights
               && !steps_.is_first(chunk)) {
      send_before(chunk, rank, passed.values);
    }
  }

  void add_loss(const LeafLoss& loss) {
    if (loss.samples > 0)
      losses_.push_back(loss);
  }

  /// A chunk takes part in the step once it has the parameters of others that
  /// it uses, or hands on.
  void hand_on_if_there(uint32_t chunk) {
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

  std::vector<uint32_t> ranks_; ///< of the step that have samples
  uint32_t stage_;              ///< of its pipeline
  StageSteps steps_;
  std::vector<uint8_t> shared_; ///< by chunk: it has others' parameters
  uint32_t max_sums_ = 0;       ///< over members, of a micro-batch and a chunk
};

} // namespace

stage_actor spawn_stage(caf::actor_system& system, RoleContext context,
                        std::shared_ptr<ShardStore> store) {
  return system.spawn<stage_actor::stateful_impl<StageState>>(
    std::move(context), std::move(store));
}

} // namespace troupe
