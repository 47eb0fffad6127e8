#include "actors/replica/device_home.hpp"

#include "actors/compute/not_finite.hpp"
#include "kernels/base/seconds_since.hpp"
#include "kernels/base/steady_clock.hpp"
#include "strategies/tree_addends.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

namespace {

/// Whether devices like this one update with the bits of all other members: of
/// the host, or of a plugin's devices, where there are no others.
bool updates_alike(const Job& job, DeviceId device) {
  if (device.kind != DeviceId::Kind::pjrt)
    return updates_as_the_host(job.worker_graph, device);
  return keeps_variables(job.worker_graph, device, job.options.rule)
         && std::ranges::all_of(
           job.plan.of_kind(RoleKind::worker), [](const RolePlan& worker) {
             return parse_device(worker.device).kind == DeviceId::Kind::pjrt;
           });
}

bool is_central(const Job& job) {
  return job.options.strategy == Strategy::central_storage;
}

} // namespace

bool devices_keep_variables(const Job& job) {
  return !is_central(job)
         && std::ranges::any_of(
           job.plan.of_kind(RoleKind::worker), [&](const RolePlan& worker) {
             return updates_alike(job, parse_device(worker.device));
           });
}

std::unique_ptr<DeviceHome> DeviceHome::of(const RoleContext& context,
                                           bool alone, LeafComputer& computer) {
  const auto& job = *context.job;
  const auto device = parse_device(job.plan.role(context.role).device);
  if (is_central(job) || (!alone && !updates_alike(job, device)))
    return nullptr;
  auto made = make_resident_replica(job.worker_graph, device, job.options.rule,
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

/// Leaves a node's sum on the device, or on each of its devices, which share
/// the node's ranks; false: it has no samples.
bool DeviceHome::sum(uint64_t step, RankRange node, StepGradient& result) {
  const auto places = device_->places();
  const auto size = node.size();
  const auto there = [&](RankRange part) { // of the node's own tree
    return RankRange{node.lo + part.lo, node.lo + part.hi};
  };
  std::vector<std::vector<RankRange>> nodes(places);
  std::vector<std::vector<uint32_t>> vectors(places); // those before each node
  std::vector<std::vector<Pass>> passes(places);
  for (uint32_t place = 0; place < places; ++place) {
    const auto ranks = ranks_of_worker(place, places, size);
    if (computer_.in_any_order() && !ranks.empty())
      nodes[place] = {ranks};
    else
      nodes[place] = maximal_nodes(ranks, size);
    uint32_t filled = 0;
    for (auto part : nodes[place]) {
      vectors[place].push_back(filled);
      filled += list(step, there(part), passes[place]) ? 1 : 0;
    }
  }
  for (auto rank = node.lo; rank < node.hi; ++rank)
    result.leaves.push_back({rank, 0, 0});
  compute_passes(step, passes, result);
  if (std::ranges::all_of(passes, &std::vector<Pass>::empty))
    return false;
  if (places == 1)
    return true;
  SumProgram program;
  if (!computer_.in_any_order()) {
    std::vector<bool> filled;
    for (uint32_t rank = 0; rank < size; ++rank)
      filled.push_back(computer_.filled(step, there({rank, rank + 1})));
    for (const auto& addend : tree_addends(nodes, filled))
      program.push_back(
        {addend.member, vectors[addend.member][addend.node], addend.merges});
  }
  device_->sum_places(program, computer_.in_any_order());
  return true;
}

/// Places go on side by side, pass by pass.
void DeviceHome::compute_passes(uint64_t step,
                                const std::vector<std::vector<Pass>>& passes,
                                StepGradient& result) {
  size_t rounds = 0;
  for (const auto& of_place : passes)
    rounds = std::max(rounds, of_place.size());
  std::vector<LeafLoss> begun;
  size_t told = 0; // of these, by the device
  const auto tell = [&] {
    auto& leaf = begun[told++];
    leaf.loss_sum += device_->next_stats().loss_sum;
    *std::ranges::find(result.leaves, leaf.virtual_rank,
                       &LeafLoss::virtual_rank) = leaf;
  };
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
        if (round < passes[place].size() && merge < passes[place][round].merges)
          device_->add_gradients(place);
    // So many batches, and gradients, are on their way to a device at once.
    while (begun.size() - told > 2 * passes.size())
      tell();
  }
  while (told < begun.size())
    tell();
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
    if (sum(step, targets.nodes[i], result)
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
    sum(moment.step, targets.nodes.front(), gradient);
    return losses_are_finite(gradient.leaves) && update_by_sum(moment);
  });
}

} // namespace troupe
