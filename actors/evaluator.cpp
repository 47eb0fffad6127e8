#include "actors/evaluator.hpp"

#include "kernels/buffer.hpp"
#include "kernels/replica.hpp"

#include <cstring>
#include <map>
#include <numeric>

namespace troupe {
namespace {

constexpr uint32_t batch_rows = 256;

class EvaluatorState {
public:
  static inline const char* name = "evaluator";

  EvaluatorState(evaluator_actor::pointer self, RoleContext context)
    : self_(self),
      context_(std::move(context)),
      job_(*context_.job),
      executor_(std::make_shared<Executor>("evaluator", 1)) {
  }

  ~EvaluatorState() {
    executor_.reset(); // its task reads what is destroyed below
  }

  evaluator_actor::behavior_type make_behavior() {
    guard_role(self_, context_.coordinator);
    return {
      [this](const Evaluate& x) { on(x); },
      [this](const Finish& x) {
        if (x.job == context_.job_id)
          self_->quit();
      },
      [](const Completion& x) { x.then(); },
    };
  }

private:
  struct Partial {
    std::shared_ptr<Buffer> parameters;
    uint32_t arrived = 0;
  };

  void on(const Evaluate& part) {
    if (part.job != context_.job_id || part.slice >= job_.plan.slices.size()
        || part.values.size() != job_.plan.slices[part.slice].count)
      return;
    auto& partial = partial_[part.version];
    if (!partial.parameters) {
      partial.parameters = std::make_shared<Buffer>(job_.layout.total);
      partial.parameters->fill(0);
    }
    const auto& slice = job_.plan.slices[part.slice];
    std::memcpy(partial.parameters->data() + job_.flat_offset(slice),
                part.values.data(), slice.count * sizeof(float));
    if (++partial.arrived < part.slices)
      return;
    auto parameters = partial.parameters;
    partial_.erase(part.version);
    run_on(
      *executor_, self_,
      [this, parameters, version = part.version] {
        auto result = evaluate_dataset(job_.graph, *context_.data.eval,
                                       parameters->data());
        result.job = context_.job_id;
        result.version = version;
        return result;
      },
      [this](Evaluation& result) { self_->send(context_.coordinator, result); });
  }

  evaluator_actor::pointer self_;
  RoleContext context_;
  const Job& job_;
  std::map<uint64_t, Partial> partial_;
  std::shared_ptr<Executor> executor_;
};

} // namespace

Evaluation evaluate_dataset(const Graph& graph, const Dataset& data,
                            const float* parameters) {
  auto replica = make_replica(graph, DeviceId{}, batch_rows);
  Buffer features{size_t{batch_rows} * graph.features};
  std::vector<int32_t> labels(batch_rows);
  std::vector<uint32_t> rows(batch_rows);
  Evaluation result;
  uint64_t correct = 0;
  for (uint64_t at = 0; at < data.samples(); at += batch_rows) {
    const auto count = static_cast<uint32_t>(
      std::min<uint64_t>(batch_rows, data.samples() - at));
    std::iota(rows.begin(), rows.end(), static_cast<uint32_t>(at));
    data.gather(rows.data(), count, features.data(), labels.data());
    auto stats = replica->evaluate(
      parameters, {features.data(), labels.data(), count}, nullptr);
    result.loss += stats.loss_sum;
    correct += stats.correct;
  }
  result.samples = data.samples();
  result.loss /= static_cast<double>(result.samples);
  result.accuracy
    = static_cast<double>(correct) / static_cast<double>(result.samples);
  return result;
}

evaluator_actor spawn_evaluator(caf::actor_system& system,
                                RoleContext context) {
  return system.spawn<evaluator_actor::stateful_impl<EvaluatorState>>(
    std::move(context));
}

} // namespace troupe
