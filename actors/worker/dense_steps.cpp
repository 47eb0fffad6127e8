#include "actors/worker/dense_steps.hpp"

#include "actors/job/beginning.hpp"
#include "actors/replica/lock_step.hpp"
#include "kernels/base/buffer.hpp"
#include "kernels/base/require.hpp"
#include "kernels/collective/brought.hpp"
#include "kernels/cpu/vector_loops.hpp"
#include "strategies/takeover.hpp"

#include <algorithm>

namespace troupe {
namespace {

/// A shared sum takes so many of a member.
constexpr uint32_t max_addends = Brought::max_vectors;

std::vector<Slice> reduced_slices(const Job& job) {
  std::vector<Slice> out;
  for (const auto& slice : job.plan.slices)
    if (!job.plan.on_shards(slice.id))
      out.push_back(slice);
  return out;
}

/// The runs of parameters that are no tables; padding between them goes along.
GradientBuckets reduced_runs(const Job& job) {
  auto buckets = make_buckets(job.worker_graph, job.layout, 0);
  buckets.runs.clear();
  bool goes_on = false;
  for (uint32_t i = 0; i < job.layout.offsets.size(); ++i) {
    const bool table = std::ranges::find(job.tables, i) != job.tables.end();
    const auto begin = job.layout.offsets[i];
    const auto end = i + 1 < job.layout.offsets.size()
                       ? job.layout.offsets[i + 1]
                       : job.layout.total;
    if (!table && goes_on)
      buckets.runs.back().second = end;
    else if (!table)
      buckets.runs.emplace_back(begin, end);
    goes_on = !table;
  }
  return buckets;
}

std::shared_ptr<FlatArrays> two_banks(const Job& job) {
  return std::make_shared<FlatArrays>(job, VariableBanks::arrays_of(job, 2),
                                      false);
}

} // namespace

DenseSteps::DenseSteps(const RoleContext& context, Executor& executor)
  : context_(context),
    job_(*context.job),
    executor_(executor),
    slices_(reduced_slices(job_)),
    buckets_(reduced_runs(job_)),
    variables_(job_, two_banks(job_), 0, 2),
    oldest_(variables_.version()),
    newest_(oldest_),
    count_from_(count_from(job_.beginning.get())),
    statistics_(job_, 1),
    group_(*context_.faults, pass_patience(job_.options)) {}

/// A step is one update of the slices kept here, whatever the rows do.
uint64_t DenseSteps::count_from(const Beginning* beginning) const {
  return beginning == nullptr
           ? 0
           : beginning->updates(slices_.front().id) - beginning->step();
}

std::vector<SliceState> DenseSteps::held() const {
  std::vector<SliceState> out;
  for (const auto& slice : slices_)
    out.push_back({slice.id, oldest_, newest_, {}, 0, {}, 0});
  return out;
}

// --- epochs -----------------------------------------------------------------

void DenseSteps::begin_epoch(ReplicaStart start) {
  start_ = std::move(start);
  auto usual = start_;
  for (auto& member : usual.members)
    member.held.clear();
  addends_ = 0;
  for (auto* each : {&usual, &start_}) { // the step that comes next is the last
    shares_ = divide_step(each->members,
                          {job_.options.virtual_ranks, false, 1, max_addends});
    const auto& own = share();
    addends_ = std::max(
      addends_, static_cast<uint32_t>(own.held.size() + own.left.size()));
  }
  // Each epoch has arrays of its own: a member that stopped in the middle of
  // the last one's may write to those later.
  statistics_ = StatisticsRoom{job_,
                               static_cast<uint32_t>(start_.members.size())};
  statistics_.first = addends_ + 1;
  arrays_ = std::make_shared<FlatArrays>(
    job_, statistics_.first + statistics_.arrays, context_.own_process);
  const auto owners = assign(slices_,
                             static_cast<uint32_t>(start_.members.size()));
  own_slices_.clear();
  for (size_t i = 0; i < slices_.size(); ++i)
    if (owners[i] == start_.rank)
      own_slices_.push_back(slices_[i].id);
}

std::vector<RankRange> DenseSteps::missing() const {
  std::vector<RankRange> held;
  for (const auto& share : shares_)
    held.insert(held.end(), share.held.begin(), share.held.end());
  return missing_ranks(held, job_.options.virtual_ranks);
}

ReducerLayout DenseSteps::layout() const {
  return {start_.rank, static_cast<uint32_t>(start_.members.size()),
          buckets_.runs, buckets_.hash};
}

void DenseSteps::reset(const std::shared_ptr<const Beginning>& beginning) {
  variables_.initialise(job_, beginning.get());
  count_from_ = count_from(beginning.get());
  oldest_ = newest_ = variables_.version();
}

StepOutcome DenseSteps::begin(uint64_t version,
                              std::optional<uint32_t> source) {
  StepOutcome outcome;
  const bool has = oldest_ <= version && version <= newest_;
  kernels::require(has || source, "nobody has what the epoch begins with");
  if (!has)
    oldest_ = newest_; // the other bank is about to be written
  for (auto* array : variables_.all(version)) {
    if (!source)
      break;
    if (has)
      copy_runs(array, whole_sum());
    if (!group_.broadcast(whole_sum(), job_.layout.total, *source, outcome)) {
      if (!has && version % 2 == newest_ % 2) // a newcomer's only version
        reset(job_.beginning);
      return outcome;
    }
    if (!has)
      copy_runs(whole_sum(), array);
  }
  oldest_ = newest_ = version;
  outcome.version = version;
  outcome.taken = true;
  return outcome;
}

// --- a step -----------------------------------------------------------------

StepOutcome
DenseSteps::compute(uint64_t step,
                    const std::function<StepGradient(RankPeers*)>& work) {
  return compute_together(
    group_,
    {ranks_with_samples(job_, step, nodes_of(shares_)), start_.rank,
     statistics_.values,
     statistics_.values > 0 ? arrays_->at(statistics_.first) : nullptr},
    work);
}

StepOutcome DenseSteps::take(uint64_t step, const std::vector<NodeSum>& sums,
                             uint64_t end) {
  StepOutcome outcome;
  kernels::require(step == newest_, "a step is taken from the newest version");
  if (!group_.can_begin(outcome) || !reduce(step, sums, outcome))
    return outcome;
  update_all(step);
  oldest_ = step;
  newest_ = step + 1;
  divide();
  outcome.version = newest_;
  outcome.taken = true;
  if (newest_ == end || newest_ == wanted_ || job_.is_snapshot_version(newest_))
    outcome.snapshot = snapshot();
  return outcome;
}

/// Nobody holds anything of the steps after the first of an epoch.
void DenseSteps::divide() {
  bool any = false;
  for (auto& member : start_.members)
    any = !std::exchange(member.held, {}).empty() || any;
  if (any)
    shares_ = divide_step(start_.members,
                          {job_.options.virtual_ranks, false, 1, max_addends});
}

/// The node's sum, from sums of nodes below it along the tree; false: it has no
/// samples.
bool DenseSteps::gather(RankRange node, const std::vector<NodeSum>& sums,
                        float* target) const {
  const auto found = std::ranges::find(sums, node, &NodeSum::node);
  if (found != sums.end()) {
    if (found->sum)
      copy_runs(found->sum->data(), target);
    return found->sum != nullptr;
  }
  kernels::require(node.size() > 1, "a node that was not computed");
  const auto [left, right] = children(node);
  const bool has_left = gather(left, sums, target);
  if (!has_left)
    return gather(right, sums, target);
  Buffer other{job_.layout.total};
  if (gather(right, sums, other.data()))
    for (const auto& [begin, end] : buckets_.runs)
      add(target + begin, other.data() + begin, target + begin, end - begin);
  return true;
}

bool DenseSteps::reduce(uint64_t step, const std::vector<NodeSum>& sums,
                        StepOutcome& outcome) {
  const auto nodes = nodes_of(shares_);
  const auto& own = nodes[start_.rank];
  ReduceStep sum;
  sum.step = step;
  sum.program = tree_program(job_, step, nodes);
  for (uint32_t i = 0; i < own.size(); ++i) {
    gather(own[i], sums, arrays_->at(i)); // of one without samples: left out
    sum.vectors.push_back(arrays_->at(i));
  }
  sum.results = {whole_sum()};
  return group_.reduce(std::move(sum), buckets_.runs.size(), {}, outcome);
}

void DenseSteps::update_all(uint64_t step) {
  const auto in = variables_.all(step);
  const auto out = variables_.all(step + 1);
  executor_.parallel_for(slices_.size(), [&](size_t i, uint32_t) {
    const auto at = job_.flat_offset(slices_[i]);
    auto args = slice_update(job_, slices_[i], moment(step));
    args.gradient_sum = whole_sum() + at;
    args.in = in[0] + at;
    args.out = out[0] + at;
    if (in.size() > 1) {
      args.state_in = in[1] + at;
      args.state_out = out[1] + at;
      args.state_stride = variables_.stride();
    }
    update(job_.options.rule, args);
    if (std::ranges::binary_search(own_slices_, slices_[i].id))
      updated_slice(job_, slices_[i], 0, step, args);
  });
}

UpdateMoment DenseSteps::moment(uint64_t step) const {
  return {step + count_from_, step, job_.sampling.step(step).count};
}

float* DenseSteps::whole_sum() const {
  return arrays_->at(addends_);
}

void DenseSteps::copy_runs(const float* from, float* to) const {
  for (const auto& [begin, end] : buckets_.runs)
    std::copy(from + begin, from + end, to + begin);
}

std::vector<SnapshotSlice> DenseSteps::snapshot() const {
  return snapshot_of(job_, context_.job_id, variables_, newest_,
                     moment(newest_).count, own_slices_);
}

} // namespace troupe
