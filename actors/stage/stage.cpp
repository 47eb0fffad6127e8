#include "actors/stage/stage.hpp"

#include "actors/job/stage_layers.hpp"
#include "actors/stage/split_role.hpp"
#include "actors/stage/steps.hpp"

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
/// uses some, and values or gradients before each.
class StageState : public SplitRole {
public:
  static inline const char* name = "stage";

  StageState(stage_actor::pointer self, const RoleContext& context,
             std::shared_ptr<ShardStore> store)
    : SplitRole(self, context),
      steps_(context_, *executor_, std::move(store)),
      shared_(steps_.chunks()) {
    take_steps(steps_);
  }

  ~StageState() override { end_tasks(); }

private:
  bool goes_round() const override { return steps_.chunks() > 1; }

  /// The first who holds a slice gives it to those that do not.
  Copies copies_of(const Activate& activation) const override {
    Copies out;
    if (activation.rollback)
      return out;
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
    const auto chunk = number / ranks();
    if (chunk >= steps_.chunks())
      return std::nullopt;
    const auto& part = steps_.part(chunk);
    const auto rows = rows_of(values.step, number % ranks());
    switch (values.stream) {
      case StageStream::forward:
        return forward_elements(job_.graph, part.in, rows);
      case StageStream::backward:
        return rows == 0 ? 0 : backward_elements(job_.graph, part.out, rows);
      case StageStream::parameters:
        return parameter_elements(job_.graph, part.in);
      default: // of tensor members
        return std::nullopt;
    }
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

  /// Under which a rank's values travel, to a chunk of a stage.
  uint32_t number_of(uint32_t chunk, uint32_t rank) const {
    return chunk * ranks() + rank;
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
    const auto shape = pipeline_shape(job_.options,
                                      micro_batches(job_.options));
    return step_actions(shape, place(), static_cast<uint32_t>(ranks_.size()));
  }

  void pass_if_there(const StageAction& action) override {
    if (!shared_[action.chunk]) {
      hand_on_if_there(action.chunk);
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
  StageSteps steps_;
  std::vector<uint8_t> shared_; ///< by chunk: it has others' parameters
};

} // namespace

stage_actor spawn_stage(caf::actor_system& system, RoleContext context,
                        std::shared_ptr<ShardStore> store) {
  return system.spawn<stage_actor::stateful_impl<StageState>>(
    std::move(context), std::move(store));
}

} // namespace troupe
