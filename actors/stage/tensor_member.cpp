#include "actors/stage/tensor_member.hpp"

#include "actors/stage/peer_copies.hpp"
#include "actors/stage/split_role.hpp"
#include "actors/stage/tensor_steps.hpp"

#include <optional>
#include <utility>
#include <vector>

namespace troupe {
namespace {

/// A role of a split model (SplitRole) whose passes are the runs between two
/// sums over the members of its group, `chunk` of an action counting those of a
/// micro-batch: each but the first waits for all others' partial sums. All
/// members have their group's losses.
class TensorState : public SplitRole {
public:
  static inline const char* name = "tensor";

  TensorState(stage_actor::pointer self, const RoleContext& context,
              std::shared_ptr<ShardStore> store)
    : SplitRole(self, context), steps_(context_, *executor_, std::move(store)) {
    take_steps(steps_);
  }

  ~TensorState() override { end_tasks(); }

private:
  /// All that a member keeps, or nothing.
  Copies copies_of(const Activate& activation) const override {
    const auto duties = copy_duties(activation, context_.role.index);
    Copies out;
    for (auto slice : steps_.slices()) {
      if (duties.learns)
        out.missing.insert(slice);
      for (auto learner : duties.learners)
        out.given.emplace_back(learner, slice);
    }
    return out;
  }

  uint32_t members() const { return mesh_.tensor; } ///< of the group

  /// Under which a member's partial sum travels, of one of a rank's sums.
  uint32_t number_of(uint32_t sum, uint32_t member, uint32_t rank) const {
    return (sum * members() + member) * ranks() + rank;
  }

  std::optional<uint64_t>
  elements_of(const StageValues& values) const override {
    const auto number = values.virtual_rank;
    const auto sum = number / (members() * ranks());
    if (values.stream != StageStream::partials || sum >= steps_.sums())
      return std::nullopt;
    return steps_.replica().sum_elements(sum, rows_of(values.step,
                                                      number % ranks()));
  }

  /// All others' partial sums, by member; nothing as long as one is missing.
  std::optional<std::vector<TensorView>> partials_of(uint32_t sum,
                                                     uint32_t rank) {
    for (uint32_t member = 0; member < members(); ++member)
      if (member != place()
          && !inbox_.has(course_.version(), StageStream::partials,
                         number_of(sum, member, rank)))
        return std::nullopt;
    std::vector<TensorView> partials(members());
    for (uint32_t member = 0; member < members(); ++member)
      if (member != place())
        partials[member] = *came(StageStream::partials,
                                 number_of(sum, member, rank));
    return partials;
  }

  std::vector<StageAction> passes_of(uint64_t step) override {
    std::vector<StageAction> passes;
    const auto share = mesh_.ranks(pipeline_, ranks());
    for (auto rank = share.lo; rank < share.hi; ++rank)
      if (rows_of(step, rank) > 0)
        for (uint32_t sum = 0; sum <= steps_.sums(); ++sum)
          passes.push_back({StagePass::forward, rank, sum});
      else
        losses_.push_back({rank, 0, 0});
    // A group without samples takes part in one sum of nothing: so its members
    // know of each other that they have this version.
    if (passes.empty())
      passes = {{StagePass::forward, share.lo, 0},
                {StagePass::forward, share.lo, 1}};
    return passes;
  }

  void pass_if_there(const StageAction& action) override {
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
          if (member != place())
            send(mesh_.member(pipeline_, 0, member), StageStream::partials,
                 number_of(sum, place(), rank), passed.partial);
      });
  }

  TensorSteps steps_;
};

} // namespace

stage_actor spawn_tensor_member(caf::actor_system& system, RoleContext context,
                                std::shared_ptr<ShardStore> store) {
  return system.spawn<stage_actor::stateful_impl<TensorState>>(
    std::move(context), std::move(store));
}

} // namespace troupe
