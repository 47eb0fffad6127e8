#include "actors/replica/resident_steps.hpp"

#include "kernels/base/seconds_since.hpp"
#include "kernels/base/steady_clock.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace troupe {

std::unique_ptr<ResidentSteps>
ResidentSteps::on_device(const RoleContext& context, LeafComputer& computer) {
  const auto& job = *context.job;
  // A layer in slices has one trust ratio for all of its pieces.
  if (job.options.rule.kind == OptimizerKind::lamb && !job.graph.pieces.empty())
    return nullptr;
  auto device = make_resident_replica(
    job.worker_graph, parse_device(job.plan.role(context.role).device),
    job.options.rule, computer.max_rows(), job.precision());
  if (!device)
    return nullptr;
  return std::make_unique<ResidentSteps>(context.job, computer,
                                         std::move(device));
}

ResidentSteps::ResidentSteps(std::shared_ptr<const Job> job,
                             LeafComputer& computer,
                             std::unique_ptr<ResidentReplica> device)
  : job_(std::move(job)), computer_(computer), device_(std::move(device)) {}

/// Leaves the step's sum on the device. False: a loss is not finite.
bool ResidentSteps::compute(uint64_t step, StepGradient& gradient) {
  device_->forget_gradients();
  gradient.leaves.clear();
  sum(step, {0, job_->options.virtual_ranks}, gradient);
  return std::ranges::all_of(gradient.leaves, [](const LeafLoss& leaf) {
    return std::isfinite(leaf.loss_sum);
  });
}

/// Leaves a node's sum on the device, along the fixed tree; false: it has no
/// samples.
bool ResidentSteps::sum(uint64_t step, RankRange node, StepGradient& gradient) {
  if (node.size() == 1 || computer_.in_any_order()) {
    const auto all = computer_.push_pass(*device_, step, node);
    gradient.leaves.push_back(all);
    for (auto rank = node.lo + 1; rank < node.hi; ++rank)
      gradient.leaves.push_back({rank, 0, 0});
    return all.samples > 0;
  }
  const auto [left, right] = children(node);
  const bool has_left = sum(step, left, gradient);
  const bool has_right = sum(step, right, gradient);
  if (has_left && has_right)
    device_->add_gradients();
  return has_left || has_right;
}

/// False: the gradient is not finite.
bool ResidentSteps::update(UpdateMoment moment) {
  ResidentReplica::Update how;
  how.number = moment.count + 1;
  how.learning_rate = static_cast<float>(learning_rate(job_->lr, moment.step));
  how.samples = static_cast<float>(moment.samples);
  how.clip_norm = job_->options.clip_norm;
  how.lazy_tables = !job_->lazy.empty();
  return device_->update(how);
}

/// What is not finite is computed once more, as by a LeafComputer: the machine
/// may have erred.
bool ResidentSteps::take(uint64_t step, UpdateMoment moment,
                         const VariableBanks& variables, StepOutcome& outcome) {
  const auto begin = SteadyClock::now();
  if (!is_there_)
    device_->write(variables.parameters(step), variables.state(step),
                   variables.stride());
  is_there_ = true;
  auto& gradient = outcome.gradient;
  gradient.step = step;
  bool updated = compute(step, gradient) && update(moment);
  if (!updated) {
    const bool losses = compute(step, gradient);
    updated = losses && update(moment);
    gradient.computed_twice = updated;
    const auto number = std::to_string(step + 1);
    if (!losses)
      outcome.trouble = "NaN loss at step " + number
                        + ": lower --lr or look at the data";
    else if (!updated)
      outcome.trouble = "the gradient of step " + number
                        + " is not finite, computed twice: lower --lr or look "
                          "at the data";
  }
  gradient.seconds = seconds_since(begin);
  gradient.data_seconds = computer_.take_data_seconds();
  outcome.computed = updated;
  return updated;
}

void ResidentSteps::read(const VariableBanks& variables, uint64_t version) {
  if (is_there_)
    device_->read(variables.parameters(version), variables.state(version),
                  variables.stride());
}

} // namespace troupe
