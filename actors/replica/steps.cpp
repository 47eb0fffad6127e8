#include "actors/replica/steps.hpp"

#include "actors/job/first_period.hpp"
#include "actors/job/update_watch.hpp"
#include "actors/replica/device_home.hpp"
#include "actors/replica/host_home.hpp"
#include "actors/replica/lock_step.hpp"
#include "kernels/base/error.hpp"
#include "kernels/base/require.hpp"
#include "kernels/base/seconds_since.hpp"
#include "kernels/base/steady_clock.hpp"
#include "kernels/cuda/nccl_reducer.hpp"
#include "kernels/engine/parameter_gate.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

namespace troupe {
namespace {

using Clock = SteadyClock;

/// The device of the role, where it keeps variables; else the host.
std::unique_ptr<VariableHome> home_of(const RoleContext& context, bool alone,
                                      LeafComputer& computer,
                                      const BankUpdate& update) {
  if (auto device = DeviceHome::of(context, alone, computer))
    return device;
  return std::make_unique<HostHome>(computer, update);
}

} // namespace

ReplicaSteps::ReplicaSteps(const RoleContext& context, Executor& executor)
  : context_(context),
    job_(*context.job),
    executor_(executor),
    replicas_(
      static_cast<uint32_t>(job_.plan.of_kind(RoleKind::worker).size())),
    on_devices_(!alone() && devices_keep_variables(job_)),
    by_nccl_(!alone() && job_.options.all_reduce == "nccl"),
    computer_(context.job, context.data.train, executor_, device(), nullptr,
              context.faults, context.flight),
    update_(job_, executor_),
    sums_(job_, replicas_, !context.own_process, on_devices_),
    statistics_(job_, replicas_),
    home_(home_of(context_, alone(), computer_, update_)),
    group_(*context_.faults, pass_patience(job_.options),
           [this] { move_to_new_arrays(); }) {
  layouts_ = bucket_layouts(job_, alone());
  if (job_.goes_in_lock_step())
    layouts_.resize(1); // no pass goes on beside the reduction
  if (by_nccl_) {
    layouts_.resize(1); // each sum is one piece
    if (!home_->keeps_version())
      throw InputError("--all-reduce nccl sums what GPUs keep, and --model "
                       + job_.options.model + " keeps nothing there: drop it");
    kernels::nccl_version(); // else it is said in the first step
  }
  // Copies of mirrored in one memory would be equal all the time. Threads of a
  // device update its own together.
  if (context_.groups && !alone() && !on_devices_
      && (job_.options.strategy == Strategy::central_storage
          || executor_.threads() == 1))
    variables_ = context_.groups->variables();
  shares_variables_ = variables_ != nullptr;
  make_arrays();
  count_from_ = first_period(job_).count_from();
  version_ = variables_->version();
  home_->write(*variables_, version_);
}

/// Makes variables as well, unless all replicas of the process have the same.
void ReplicaSteps::make_arrays() {
  const uint32_t banks = alone() || home_->keeps_version() ? 1 : 2;
  const auto own = shares_variables_ ? 0
                                     : VariableBanks::arrays_of(job_, banks);
  const auto sums = sums_.arrays() + (alone() || updates_in_parts() ? 0 : 1);
  if (by_nccl_ && !device_sums_)
    device_sums_ = std::make_shared<FlatArrays>(
      job_, sums, [device = device()](uint64_t elements) {
        return kernels::make_device_array(device, elements);
      });
  const auto first = by_nccl_ ? 0 : sums;
  statistics_.first = first + own;
  arrays_ = std::make_shared<FlatArrays>(job_,
                                         statistics_.first + statistics_.arrays,
                                         context_.own_process && !alone());
  if (!shares_variables_)
    variables_ = std::make_shared<VariableBanks>(job_, arrays_, first, banks);
  home_->use(arrays_);
}

/// Devices update by the whole sum; scalars of the step need the whole gradient
/// first; and a device of several threads updates with all of them.
bool ReplicaSteps::updates_in_parts() const {
  return !on_devices_ && rounds_of(job_.options).empty()
         && (executor_.threads() == 1 || shares_variables());
}

float* ReplicaSteps::whole_sum() const {
  return alone() ? targets_.sums.front() : sum_arrays().at(sums_.arrays());
}

ReducerLayout ReplicaSteps::layout(const ReplicaStart& start) const {
  ReducerLayout layout{start.rank, static_cast<uint32_t>(start.members.size()),
                       layouts_[0].runs, layouts_[0].hash};
  if (job_.options.all_reduce == "reduction_to_one_device")
    layout.summing = 1;
  return layout;
}

void ReplicaSteps::reset(const std::shared_ptr<const Beginning>& beginning) {
  if (lent_)
    move_to_new_arrays();
  variables_->initialise(job_, beginning.get());
  home_->write(*variables_, variables_->version());
  count_from_ = beginning ? beginning->period().count_from() : 0;
  hold(variables_->version());
}

void ReplicaSteps::hold(uint64_t version) {
  version_ = version;
  variables_->hold(version);
  sums_.end_step();
  point_at_sums();
}

void ReplicaSteps::enter(std::shared_ptr<ReplicaGroup> group,
                         ReplicaStart start) {
  if (group && by_nccl_) {
    group->reducer = kernels::make_nccl_reducer(
      layout(start), device(), std::move(group->reducer),
      job_.options.reduction == "fast");
    group->shares_memory = false;
  }
  sums_.begin_epoch(std::move(start), group && group->shares_memory);
  point_at_sums();
  const auto owners = assign(job_.plan.slices, sums_.members());
  own_slices_.clear();
  for (const auto& slice : job_.plan.slices)
    if (owners[slice.id] == sums_.rank())
      own_slices_.push_back(slice.id);
  update_.tell_of(own_slices_,
                  !shares_variables() && !(group && group->shares_memory));
  tuning_ = BucketTuning{static_cast<uint32_t>(layouts_.size())};
  targets_.buckets = &buckets();
  targets_.ready = {};
  group_.join(std::move(group));
  if (group_.has_peers() && !job_.goes_in_lock_step())
    targets_.ready = [this](uint32_t bucket) {
      group_.reducer().ready(bucket);
      group_.reducer().progress();
      context_.faults->pass(StepPhase::push);
    };
}

void ReplicaSteps::point_at_sums() {
  targets_.nodes = sums_.left();
  targets_.sums = sums_.left_in(sum_arrays());
}

UpdateMoment ReplicaSteps::moment(uint64_t step) const {
  return {step + count_from_, step, job_.sampling.step(step).count};
}

/// Buckets that `compute` (may be empty) has not made are there already.
bool ReplicaSteps::reduce(ReduceStep step, const std::function<bool()>& compute,
                          StepOutcome& outcome) {
  return group_.reduce(std::move(step), buckets().runs.size(), compute,
                       outcome);
}

StepOutcome ReplicaSteps::synchronise(uint64_t version, uint32_t source) {
  StepOutcome outcome;
  outcome.version = version_;
  kernels::require(group_.has_peers(), "no peer to take a state from");
  const bool gives = source == sums_.rank();
  if (gives)
    home_->read(*variables_, version);
  for (auto* array : variables_->all(version))
    if (!group_.broadcast(array, job_.layout.total, source, outcome)) {
      // A newcomer's first version may lie in the bank that was being filled.
      if (version_ == job_.first_step() && !shares_variables_)
        reset(job_.beginning);
      return outcome;
    }
  if (!gives)
    home_->write(*variables_, version);
  // What others hold of the step that follows counts: it is not over.
  version_ = version;
  variables_->hold(version);
  outcome.version = version;
  outcome.taken = true;
  return outcome;
}

/// Leaves the arrays to a member that may still write to them. Nobody writes
/// to the version held.
void ReplicaSteps::move_to_new_arrays() {
  if (shares_variables_)
    return; // of one process, whose threads do not stop
  const auto before = arrays_;
  const auto old = std::exchange(variables_, nullptr);
  make_arrays();
  if (!device_sums_) {
    const auto sums = sums_.all_in(*before);
    const auto there = sums_.all_in(*arrays_);
    for (size_t i = 0; i < sums.size(); ++i)
      std::copy_n(sums[i], job_.layout.total, there[i]);
  }
  const auto from = old->all(version_);
  const auto to = variables_->all(version_);
  for (size_t i = 0; i < from.size(); ++i)
    std::copy_n(from[i], job_.layout.total, to[i]);
  variables_->hold(version_);
  lent_ = false;
}

StepOutcome ReplicaSteps::take(uint64_t step, uint64_t end) {
  StepOutcome outcome;
  outcome.version = version_;
  if (step != version_ || !group_.can_begin(outcome)
      || (!alone() && !group_.has_peers()))
    return outcome;
  if (lent_) { // the run goes on after all
    move_to_new_arrays();
    point_at_sums();
  }
  if (const auto delay = context_.faults->delay(); delay.count() > 0)
    std::this_thread::sleep_for(delay);
  if (!(alone() ? take_alone(step, outcome) : take_in_group(step, outcome))) {
    if (outcome.computed)
      sums_.keep(outcome.gradient);
    return outcome;
  }
  auto& leaves = outcome.gradient.leaves;
  const auto& held = sums_.held_leaves();
  leaves.insert(leaves.end(), held.begin(), held.end());
  hold(step + 1);
  outcome.version = version_;
  outcome.taken = true;
  if (version_ == end || version_ == wanted_
      || job_.is_snapshot_version(version_))
    outcome.snapshot = snapshot(version_ == end);
  return outcome;
}

/// Cuts the gradient of the next step as it seems best, on all replicas alike.
bool ReplicaSteps::tune(double seconds, StepOutcome& outcome) {
  const auto* before = &buckets();
  tuning_.took(seconds);
  if (tuning_.is_due()) {
    auto costs = tuning_.costs();
    if (!group_.all_reduce(costs.data(), costs.size(), outcome))
      return false;
    tuning_.settle(costs);
  }
  if (&buckets() == before)
    return true;
  targets_.buckets = &buckets();
  group_.reducer().set_buckets(buckets().runs, buckets().hash);
  return true;
}

bool ReplicaSteps::computes(StepOutcome& outcome,
                            const std::function<StepGradient()>& work) {
  try {
    outcome.gradient = work();
  } catch (const PassAbandoned&) { // the epoch has ended, or its group
    outcome.gradient = {};
    return false;
  }
  outcome.trouble = outcome.gradient.trouble;
  outcome.computed = outcome.trouble.empty();
  if (outcome.computed)
    return true;
  group_.abort(outcome.trouble);
  return false;
}

bool ReplicaSteps::take_alone(uint64_t step, StepOutcome& outcome) {
  return computes(outcome, [&] {
    return home_->take_alone(moment(step), targets_, *variables_);
  });
}

bool ReplicaSteps::take_in_group(uint64_t step, StepOutcome& outcome) {
  const auto begin = Clock::now();
  const bool whole = !updates_in_parts();
  if (!sum_in_group(step, outcome)
      || (whole && shares_variables() && !update_shared(step, outcome))
      || !tune(seconds_since(begin), outcome))
    return false;
  if (job_.updates && job_.updates->is_due(step))
    job_.updates->end(step);
  if (!whole || shares_variables())
    return true;
  // The last of a step: a device has no way back.
  outcome.trouble = home_->update(moment(step), whole_sum(), *variables_);
  return outcome.trouble.empty();
}

/// Updates as well, if that is done in parts.
bool ReplicaSteps::sum_in_group(uint64_t step, StepOutcome& outcome) {
  ReduceStep sum;
  sum.step = step;
  sum.program = sums_.program(step);
  sum.vectors = sums_.all_in(sum_arrays());
  sum.keeps_vectors = sums_.outlive_steps();
  const auto work = [&](const NodeTargets& targets) {
    return computes(outcome,
                    [&] { return home_->compute(step, targets, *variables_); });
  };
  if (updates_in_parts()) {
    sum.results = variables_->all(step + 1);
    sum.update = [this, step](uint64_t begin, uint64_t end, const float* at) {
      update_.run(*variables_, moment(step), {}, begin, end, at);
    };
  } else
    sum.results = {whole_sum()};
  if (job_.goes_in_lock_step()) // its passes need the group for themselves
    return compute_in_lock_step(step, work, outcome)
           && reduce(std::move(sum), {}, outcome);
  return reduce(
    std::move(sum), [&] { return work(targets_); }, outcome);
}

/// All members at once, which add up in the group what they have at each norm.
bool ReplicaSteps::compute_in_lock_step(
  uint64_t step, const std::function<bool(const NodeTargets&)>& work,
  StepOutcome& outcome) {
  // Passes still read and write them where a failure brings new ones.
  const auto arrays = arrays_;
  GroupStatistics peers{sums_.filled(step), sums_.rank(), statistics_.values,
                        arrays->at(statistics_.first),
                        calls_in(group_, outcome)};
  auto targets = targets_;
  targets.peers = &peers;
  if (!work(targets))
    return false;
  outcome.gradient.seconds -= outcome.wait_seconds; // at norms, up to here
  context_.faults->pass(StepPhase::push);
  return true;
}

/// Each replica knows the scalars; who owns a run updates it for all.
bool ReplicaSteps::update_shared(uint64_t step, StepOutcome& outcome) {
  const auto scalars = update_.scalars(*variables_, moment(step), whole_sum());
  ReduceStep apply;
  apply.step = step;
  apply.program = {{0, 0, 0}};
  apply.vectors = {whole_sum()};
  apply.results = variables_->all(step + 1);
  apply.update = [&](uint64_t begin, uint64_t end, const float* at) {
    update_.run(*variables_, moment(step), scalars, begin, end, at);
  };
  return reduce(std::move(apply), {}, outcome);
}

std::vector<SnapshotSlice> ReplicaSteps::snapshot(bool last) {
  home_->read(*variables_, version_);
  lent_ = lent_ || (last && alone() && !home_->keeps_version());
  return snapshot_of(job_, context_.job_id, *variables_, version_,
                     moment(version_).count, own_slices_,
                     lent_ ? SnapshotMemory::lent : SnapshotMemory::copied);
}

} // namespace troupe
