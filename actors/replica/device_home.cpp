#include "actors/replica/device_home.hpp"

#include "actors/compute/not_finite.hpp"
#include "actors/replica/sums.hpp"
#include "kernels/base/seconds_since.hpp"
#include "kernels/base/steady_clock.hpp"
#include "strategies/step_division.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

bool devices_keep_variables(const Job& job) {
  if (job.options.strategy == Strategy::central_storage)
    return false;
  return std::ranges::any_of(
    job.plan.of_kind(RoleKind::worker), [&](const RolePlan& worker) {
      return updates_as_the_host(job.worker_graph, parse_device(worker.device),
                                 job.options.rule);
    });
}

std::unique_ptr<DeviceHome> DeviceHome::of(const RoleContext& context,
                                           bool alone, LeafComputer& computer) {
  const auto& job = *context.job;
  const auto& rule = job.options.rule;
  const auto device = parse_device(job.plan.role(context.role).device);
  // A layer in slices has one trust ratio for all of its pieces.
  if (rule.kind == OptimizerKind::lamb && !job.graph.pieces.empty())
    return nullptr;
  if (!alone
      && (!devices_keep_variables(job)
          || !updates_as_the_host(job.worker_graph, device, rule)))
    return nullptr;
  auto made = make_resident_replica(job.worker_graph, device, rule,
                                    computer.max_rows(), job.precision());
  if (!made)
    return nullptr;
  return std::make_unique<DeviceHome>(context.job, computer, std::move(made));
}

DeviceHome::DeviceHome(std::shared_ptr<const Job> job, LeafComputer& computer,
                       std::unique_ptr<ResidentReplica> device)
  : job_(std::move(job)), computer_(computer), device_(std::move(device)) {}

void DeviceHome::use(const std::shared_ptr<FlatArrays>& arrays) {
  pinned_.clear();
  arrays_ = arrays;
}

void DeviceHome::pin(float* array) {
  const auto [at, is_new] = pinned_.try_emplace(array);
  if (is_new)
    at->second = device_->pin(array);
}

void DeviceHome::write(const VariableBanks& banks, uint64_t version) {
  device_->write(banks.parameters(version), banks.state(version),
                 banks.stride());
}

void DeviceHome::read(const VariableBanks& banks, uint64_t version) {
  device_->read(banks.parameters(version), banks.state(version),
                banks.stride());
}

/// Lists a node's passes, left to right, so that they leave its sum, along the
/// fixed tree; false: it has no samples.
bool DeviceHome::list(uint64_t step, RankRange node,
                      std::vector<Pass>& passes) const {
  if (node.size() == 1 || computer_.in_any_order()) {
    if (!computer_.filled(step, node))
      return false;
    passes.push_back({node});
    return true;
  }
  const auto [left, right] = children(node);
  const bool has_left = list(step, left, passes);
  const bool has_right = list(step, right, passes);
  if (has_left && has_right)
    ++passes.back().merges;
  return has_left || has_right;
}

/// Leaves the sums of each place's nodes there; false: no node has samples.
/// Places go on side by side, pass by pass.
bool DeviceHome::sum(uint64_t step,
                     const std::vector<std::vector<RankRange>>& nodes,
                     StepGradient& result) {
  std::vector<std::vector<Pass>> passes(nodes.size());
  size_t rounds = 0;
  const auto first = result.leaves.size();
  for (size_t place = 0; place < nodes.size(); ++place) {
    for (auto node : nodes[place]) {
      list(step, node, passes[place]);
      for (auto rank = node.lo; rank < node.hi; ++rank)
        result.leaves.push_back({rank, 0, 0});
    }
    rounds = std::max(rounds, passes[place].size());
  }
  std::vector<LeafLoss> begun;
  for (size_t round = 0; round < rounds; ++round) {
    uint32_t merges = 0;
    for (uint32_t place = 0; place < passes.size(); ++place)
      if (round < passes[place].size()) {
        const auto& pass = passes[place][round];
        begun.push_back(computer_.push_pass(*device_, step, pass.ranks, place));
        merges = std::max(merges, pass.merges);
      }
    for (uint32_t merge = 0; merge < merges; ++merge)
      for (uint32_t place = 0; place < passes.size(); ++place)
        if (round < passes[place].size()
            && merge < passes[place][round].merges)
          device_->add_gradients(place);
  }
  for (auto& leaf : begun) {
    leaf.loss_sum += device_->next_stats().loss_sum;
    *std::ranges::find(result.leaves.begin() + static_cast<long>(first),
                       result.leaves.end(), leaf.virtual_rank,
                       &LeafLoss::virtual_rank) = leaf;
  }
  return !begun.empty();
}

/// Leaves the sum of all ranks on the device, or on each of its devices.
void DeviceHome::sum_whole(uint64_t step, RankRange ranks,
                           StepGradient& result) {
  const auto places = device_->places();
  if (places == 1) {
    sum(step, {{ranks}}, result);
    return;
  }
  std::vector<StepMember> members;
  for (uint32_t place = 0; place < places; ++place)
    members.push_back({ranks_of_worker(place, places, ranks.size()), {}});
  const bool any_order = computer_.in_any_order();
  const auto nodes = nodes_of(divide_step(members, {ranks.size(), any_order}));
  sum(step, nodes, result);
  device_->sum_places(any_order ? SumProgram{} : tree_program(*job_, step, nodes),
                      any_order);
}

/// What is not finite is computed once more, as by a LeafComputer: the machine
/// may have erred.
StepGradient DeviceHome::twice(uint64_t step,
                               const std::function<bool(StepGradient&)>& once) {
  const auto begin = SteadyClock::now();
  StepGradient result;
  result.step = step;
  for (const bool again : {false, true}) {
    device_->forget_gradients();
    result.leaves.clear();
    const bool finite = once(result);
    result.computed_twice = finite && again;
    result.trouble = finite ? "" : not_finite_line(step, result.leaves);
    if (finite)
      break;
  }
  result.seconds = seconds_since(begin);
  result.data = computer_.take_data_time();
  return result;
}

bool DeviceHome::sum_all(uint64_t step, const NodeTargets& targets,
                         StepGradient& result) {
  bool finite = true;
  for (size_t i = 0; i < targets.nodes.size(); ++i) {
    pin(targets.sums[i]);
    if (sum(step, {{targets.nodes[i]}}, result)
        && !device_->pop_gradient(targets.sums[i]))
      finite = false;
  }
  return finite && losses_are_finite(result.leaves);
}

StepGradient DeviceHome::compute(uint64_t step, const NodeTargets& targets,
                                 const VariableBanks&) {
  auto result = twice(step, [&](StepGradient& gradient) {
    return sum_all(step, targets, gradient);
  });
  if (result.trouble.empty() && targets.ready)
    for (uint32_t i = 0; i < targets.buckets->runs.size(); ++i)
      targets.ready(i);
  return result;
}

/// False: the sum is not finite, and nothing has changed.
bool DeviceHome::update_by_sum(UpdateMoment moment) {
  ResidentReplica::Update how;
  how.number = moment.count + 1;
  how.learning_rate = static_cast<float>(learning_rate(job_->lr, moment.step));
  how.samples = static_cast<float>(moment.samples);
  how.clip_norm = job_->options.clip_norm;
  how.lazy_tables = !job_->lazy.empty();
  return device_->update(how);
}

std::string DeviceHome::update(UpdateMoment moment, float* sum,
                               const VariableBanks&) {
  pin(sum);
  device_->push_sum(sum);
  if (update_by_sum(moment))
    return {};
  return "the sum of the gradients of step " + std::to_string(moment.step + 1)
         + " is not finite: lower --lr or look at the data";
}

StepGradient DeviceHome::take_alone(UpdateMoment moment,
                                    const NodeTargets& targets,
                                    const VariableBanks&) {
  return twice(moment.step, [&](StepGradient& gradient) {
    sum_whole(moment.step, targets.nodes.front(), gradient);
    return losses_are_finite(gradient.leaves) && update_by_sum(moment);
  });
}

} // namespace troupe
