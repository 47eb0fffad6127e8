#include "actors/shard/slice_work.hpp"

#include "actors/job/shard_tables.hpp"
#include "actors/wire/sole_owner.hpp"
#include "kernels/cpu/vector_loops.hpp"
#include "kernels/optimizer/optimizer.hpp"

#include <algorithm>
#include <cstring>

namespace troupe {

namespace {

/// Long enough to be worth a thread's while, short enough to share out.
constexpr size_t part_elements = 32'768;

/// An adaptive rule moves as far for two samples as for sixteen: the leases of
/// an epoch's last, short step would undo what others have learnt (MNIST, 8
/// workers: 0.89 instead of 0.96). Plain rules move by the mean gradient.
float rate_of_short_lease(const Job& job, uint32_t samples) {
  const auto kind = job.options.rule.kind;
  if (kind != OptimizerKind::adam && kind != OptimizerKind::adamw
      && kind != OptimizerKind::rmsprop && kind != OptimizerKind::adagrad)
    return 1;
  const auto share = static_cast<float>(samples)
                     * static_cast<float>(job.options.virtual_ranks)
                     / static_cast<float>(job.options.global_batch);
  return std::min(1.0f, share);
}

} // namespace

SliceWork::SliceWork(const Job& job, std::shared_ptr<ShardStore> store,
                     uint32_t slice, Executor& executor)
  : job_(job),
    store_(std::move(store)),
    slice_(slice),
    executor_(&executor),
    filter_(find_gradient_filter(job.options.server_filter)),
    rule_(find_server_rule(job.options.server_rule)) {}

void SliceWork::accept(RankRange node, Addend values,
                       const StepLedger::Decision& decision) {
  held_[node] = std::move(values);
  for (const auto& old : decision.replaced)
    held_.erase(old);
  for (const auto& [left, right, parent] : decision.combines) {
    auto a = std::move(held_[left]);
    auto b = std::move(held_[right]);
    held_.erase(left);
    held_.erase(right);
    if (a.empty() || b.empty()) { // the identity
      held_[parent] = a.empty() ? std::move(b) : std::move(a);
      continue;
    }
    if (slice().sparse()) {
      held_[parent] = sum_rows(job_, slice(), a, b);
      continue;
    }
    const auto count = a.values.size();
    auto sum = take(count);
    add(a.values.data(), b.values.data(), sum->data(), count);
    const auto* first = sum->data();
    held_[parent] = {TensorView{std::move(sum), first, count}};
  }
}

const Addend& SliceWork::sum() const {
  return held_.find(RankRange{0, job_.options.virtual_ranks})->second;
}

TensorView SliceWork::root() const {
  return slice().sparse() ? whole_payload(job_, slice(), sum()) : sum().values;
}

std::vector<double> SliceWork::sums(ScalarRoundKind round, uint64_t step,
                                    uint32_t samples,
                                    const StepScalars& scalars) const {
  const auto version = store_->newest(slice_);
  auto args = slice_update(job_, slice(),
                           {store_->updates(slice_), step, samples}, scalars);
  if (slice().sparse())
    return row_sums(round, args);
  args.gradient_sum = sum().values.data();
  args.in = store_->values(slice_, version);
  args.state_in = store_->state(slice_, version);
  args.state_stride = slice().count;
  return slice_sums(job_, slice(), round, args);
}

/// The rows that the step touches, as its update will find them.
std::vector<double> SliceWork::row_sums(ScalarRoundKind round,
                                        UpdateArgs args) const {
  const auto& rows = sum();
  if (!rows.ids || rows.ids->count() == 0)
    return slice_sums(job_, slice(), round, args);
  args.count = rows.ids->count() * row_width(job_, slice());
  const auto slots = state_slots(job_.options.rule.kind);
  Buffer values{args.count};
  Buffer state{std::max<size_t>(1, slots * args.count)};
  if (round == ScalarRoundKind::trust_ratios)
    store_->table(slice_).read_state(*rows.ids, values.data(), state.data());
  args.gradient_sum = row_values(job_, slice(), rows);
  args.in = values.data();
  args.state_in = state.data();
  args.state_stride = args.count;
  return slice_sums(job_, slice(), round, args);
}

void SliceWork::apply_step(uint64_t step, uint32_t samples,
                           const StepScalars& scalars) {
  apply_sum(sum(), step, samples, scalars);
  held_.clear();
}

void SliceWork::apply_sum(const Addend& sum, uint64_t step, uint32_t samples,
                          const StepScalars& scalars) {
  update(sum, {store_->updates(slice_), step, samples}, scalars);
  store_->commit(slice_);
}

void SliceWork::apply_lease(const Addend& gradient, uint32_t samples,
                            const StepScalars& scalars,
                            const Consistency& period,
                            const LeaseSet& applied) {
  const auto count = store_->updates(slice_);
  auto damped = scalars;
  damped.rate_scale *= rate_of_short_lease(job_, samples);
  update(gradient,
         {count, period.step_of(count, job_.options.virtual_ranks), samples},
         damped);
  store_->commit(slice_, applied);
}

void SliceWork::own() {
  for (auto& [node, addend] : held_) {
    auto& values = addend.values;
    if (values.size() == 0 || owns(values))
      continue;
    const auto count = values.size();
    auto copy = take(count);
    std::copy_n(values.data(), count, copy->data());
    const auto* first = copy->data();
    values = TensorView{std::move(copy), first, count};
  }
}

bool SliceWork::owns(const TensorView& values) const {
  return std::ranges::any_of(pool_, [&](const auto& buffer) {
    return buffer->data() == values.data();
  });
}

void SliceWork::forget() {
  held_.clear();
}

void SliceWork::update(const Addend& gradient, UpdateMoment moment,
                       const StepScalars& scalars) {
  if (slice().sparse())
    return update_rows(gradient, moment, scalars);
  const auto version = store_->newest(slice_);
  const auto elements = slice().count;
  const auto* values = store_->values(slice_, version);
  const auto* state = store_->state(slice_, version);
  auto target = store_->begin(slice_);
  const auto slots = state_slots(job_.options.rule.kind);
  if (gradient.empty()) { // a lease without samples changes nothing
    std::memcpy(target.values, values, elements * sizeof(float));
    std::memcpy(target.state, state, slots * elements * sizeof(float));
    return;
  }
  auto args = slice_update(job_, slice(), moment, scalars);
  args.gradient_sum = gradient.values.data();
  args.in = values;
  args.out = target.values;
  args.state_in = state;
  args.state_out = target.state;
  args.state_stride = elements;
  apply_rule(args);
  updated_slice(job_, slice(), 0, moment.step, args);
}

/// The rule goes element by element, so it may go in parts; user code sees the
/// slice whole.
void SliceWork::apply_rule(UpdateArgs args) {
  if (filter_ || rule_) {
    const auto mean = take(args.count);
    for (size_t i = 0; i < args.count; ++i)
      mean->data()[i] = args.gradient_sum[i] / args.samples
                        * args.gradient_scale;
    const ServedSlice served{job_.plan.variables[slice().variable].name,
                             slice().offset, args.step, args.learning_rate};
    args.gradient_sum = mean->data();
    args.samples = 1;
    args.gradient_scale = 1;
    if (filter_)
      filter_(served, {mean->data(), args.count});
    if (rule_) {
      rule_(served, args);
      return;
    }
  }
  const auto parts = (args.count + part_elements - 1) / part_elements;
  executor_->parallel_for(parts, [&](size_t i, uint32_t) {
    const auto at = i * part_elements;
    auto part = args;
    part.count = std::min(part_elements, args.count - at);
    part.gradient_sum += at;
    part.in += at;
    part.out += at;
    if (part.state_in != nullptr) {
      part.state_in += at;
      part.state_out += at;
    }
    troupe::update(job_.options.rule, part);
  });
}

void SliceWork::update_rows(const Addend& gradient, UpdateMoment moment,
                            const StepScalars& scalars) {
  static const RowList none;
  store_->begin(slice_);
  store_->table(slice_).update(
    job_.options.rule, slice_update(job_, slice(), moment, scalars),
    gradient.empty() ? none : *gradient.ids,
    gradient.empty() ? nullptr : row_values(job_, slice(), gradient));
}

std::shared_ptr<Buffer> SliceWork::take(size_t count) {
  for (auto& buffer : pool_)
    if (buffer->size() >= count && sole_owner(buffer))
      return buffer;
  pool_.push_back(std::make_shared<Buffer>(count));
  return pool_.back();
}

} // namespace troupe
