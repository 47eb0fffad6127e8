#include "kernels/collective/shared_reducer.hpp"

#include "kernels/base/error.hpp"
#include "kernels/base/require.hpp"
#include "kernels/base/steady_clock.hpp"
#include "kernels/collective/chunks.hpp"
#include "kernels/collective/shared_control.hpp"
#include "kernels/collective/sum_loops.hpp"
#include "kernels/collective/sum_program.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <thread>

namespace troupe {

namespace {

using Clock = SteadyClock;
using kernels::require;
using Word = std::atomic_ref<uint64_t>;

/// Who does not leave a sum in time costs the others no more than new arrays.
constexpr auto time_to_leave = std::chrono::milliseconds{250};

/// A plain sum of so many elements travels in slots: one wait instead of two,
/// but every member sums. Two members gain up to 1 KiB; at 16 KiB they would
/// take 9 µs instead of 1.4 (in place) or 2.4 (written anew).
uint64_t short_elements(uint64_t members) {
  constexpr uint64_t of_all = 1'024;
  return std::clamp(of_all / members, Chunks::line,
                    SharedControl::slot_bytes / sizeof(float));
}

} // namespace

size_t SharedReducer::control_bytes(uint32_t members) {
  return SharedControl::bytes(members);
}

void SharedReducer::prepare(void* control, uint32_t members, uint64_t first) {
  require(members > 0 && members <= SharedControl::max_members,
          "members of a shared reducer");
  require(reinterpret_cast<uintptr_t>(control) % 128 == 0,
          "control memory is not aligned");
  SharedControl::prepare(control, members, first);
}

SharedReducer::SharedReducer(void* control, ReducerLayout layout,
                             std::vector<std::span<std::byte>> segments)
  : control_(static_cast<SharedControl*>(control)),
    layout_(std::move(layout)),
    segments_(std::move(segments)),
    tree_(fixed_tree(layout_.members)),
    sequence_(control_->first),
    contributed_(sequence_),
    target_(sequence_),
    ordinal_(sequence_),
    next_ordinal_(sequence_),
    lost_(layout_.members) {
  if (control_->members != layout_.members)
    throw InputError("shared reducer: its control memory is for "
                     + std::to_string(control_->members) + " members, not "
                     + std::to_string(layout_.members));
  require(layout_.rank < layout_.members, "a rank outside the group");
  require(segments_.empty() || segments_.size() == layout_.members,
          "a segment for each member");
  segments_.resize(layout_.members);
}

/// Begins the next collective on this member: counters and what it brings,
/// but for the addresses.
void SharedReducer::begin(uint64_t step, uint64_t elements,
                          std::span<const Range> ranges) {
  require(!under_way_, "a collective begins before the last is finished");
  under_way_ = true;
  ++sequence_;
  contributed_ = target_;
  target_ += layout_.members;
  for (auto range : ranges)
    target_ += Chunks(range, layout_.members).number;
  ordinal_ = next_ordinal_;
  next_ordinal_ += ranges.size();
  ranges_ = ranges;
  readied_ = is_plain_ ? ranges.size() : 0;
  next_ = 0;
  helped_ = 0;
  compared_ = false;
  // After the end others may still compare what was brought.
  is_dead_ = control_->ended();
  if (is_dead_)
    return;
  auto& brought = control_->member(layout_.rank).brought[sequence_ & 1];
  brought.step = step;
  brought.layout = is_plain_ ? 0 : layout_.hash;
  brought.elements = elements;
  brought.program = sum_.program_hash;
  brought.plain = is_plain_;
  brought.buckets = static_cast<uint32_t>(ranges.size());
  brought.updates = sum_.update != nullptr;
}

/// Publishes where this member's arrays lie and that it has started.
void SharedReducer::publish(std::span<float* const> vectors,
                            std::span<float* const> results) {
  if (is_dead_)
    return;
  auto& own = control_->member(layout_.rank);
  auto& brought = own.brought[sequence_ & 1];
  require(vectors.size() <= Brought::max_vectors
            && results.size() <= Brought::max_results,
          "too many arrays for a shared reducer");
  const auto base = reinterpret_cast<uintptr_t>(segments_[layout_.rank].data());
  const auto offset = [base](const float* array) {
    require(reinterpret_cast<uintptr_t>(array) % 64 == 0,
            "an array to be reduced is not aligned");
    return reinterpret_cast<uintptr_t>(array) - base;
  };
  brought.vectors = static_cast<uint32_t>(vectors.size());
  brought.results = static_cast<uint32_t>(results.size());
  std::transform(vectors.begin(), vectors.end(), brought.vector_at, offset);
  std::transform(results.begin(), results.end(), brought.result_at, offset);
  Word(own.started).store(sequence_, std::memory_order_relaxed);
  contribute(1);
}

/// Whoever makes it the last one completes the collective. Chunks are
/// contributed only after everybody has started, so the count tells that too.
void SharedReducer::contribute(uint64_t amount) {
  const auto before =
    Word(control_->contributed).fetch_add(amount, std::memory_order_seq_cst);
  const auto all = contributed_ + layout_.members;
  if (before + amount == target_)
    control_->complete(sequence_);
  else if (before < all && before + amount >= all)
    control_->wake();
}

bool SharedReducer::all_started() const {
  return Word(control_->contributed).load(std::memory_order_seq_cst)
         >= contributed_ + layout_.members;
}

void SharedReducer::set_buckets(std::vector<Range> buckets, uint64_t hash) {
  require(!under_way_, "buckets are cut between steps");
  layout_.buckets = std::move(buckets);
  layout_.hash = hash;
}

void SharedReducer::start(ReduceStep step) {
  require(!step.results.empty() && is_sum(step.program, layout_.members),
          "a step without a sum or results");
  is_plain_ = false;
  sum_.set_program(step.program);
  sum_.update = std::move(step.update);
  uint64_t elements = 0;
  for (auto [first, last] : layout_.buckets)
    elements = std::max(elements, last);
  begin(step.step, elements, layout_.buckets);
  publish(step.vectors, step.results);
}

void SharedReducer::ready(uint32_t bucket) {
  require(!is_plain_ && bucket == readied_ && bucket < ranges_.size(),
          "buckets become ready in order, each once");
  ++readied_;
  Word(control_->member(layout_.rank).ready)
    .store(ordinal_ + readied_, std::memory_order_seq_cst);
  if (arrived(bucket))
    control_->wake();
}

bool SharedReducer::arrived(size_t range) const {
  if (is_plain_)
    return true;
  for (uint32_t i = 0; i < layout_.members; ++i)
    if (Word(control_->member(i).ready).load(std::memory_order_seq_cst)
        <= ordinal_ + range)
      return false;
  return true;
}

/// After all have started: tells whether all brought the same. Every member
/// finds the same difference.
bool SharedReducer::compare() {
  if (compared_)
    return !differs_;
  compared_ = true;
  brought_.clear();
  for (uint32_t i = 0; i < layout_.members; ++i)
    brought_.push_back(&control_->member(i).brought[sequence_ & 1]);
  std::string found;
  for (uint32_t i = 1; i < layout_.members && found.empty(); ++i) {
    found = difference(*brought_[0], *brought_[i]);
    if (!found.empty())
      found = member_name(i) + " brought " + found + " as member 0 did";
  }
  if (found.empty() && !ranges_.empty())
    found = sum_.locate(brought_, layout_.rank, segments_);
  differs_ = !found.empty();
  if (differs_)
    end_with(CollectiveEnd::mismatch, found);
  return !differs_;
}

/// Sums the chunks that nobody has claimed of a member's run; counts them.
uint64_t SharedReducer::sum_run(size_t range, const Chunks& chunks,
                                uint32_t member) {
  const auto [first, end] = chunks.run(member);
  auto& claimed = control_->member(member).claimed;
  uint64_t summed = 0;
  uint64_t chunk = 0;
  while (!control_->ended()
         && claim_chunk(claimed, ordinal_ + range + 1, end - first, chunk)) {
    const auto [from, to] = chunks[first + chunk];
    sum_.sum(from, to);
    ++summed;
  }
  return summed;
}

/// Sums this member's runs of what has arrived and, `for_others`, what others
/// have not begun of theirs. A run's ranges are claimed in order by everybody.
void SharedReducer::sum_arrived(bool for_others) {
  const auto members = layout_.members;
  if (layout_.summing > 0 && layout_.rank >= layout_.summing) {
    while (next_ < ranges_.size() && arrived(next_))
      ++next_;
    helped_ = next_;
    return;
  }
  uint64_t summed = 0;
  for (; next_ < ranges_.size() && arrived(next_); ++next_)
    summed += sum_run(next_, {ranges_[next_], members}, layout_.rank);
  for (; for_others && helped_ < next_; ++helped_) {
    const Chunks chunks(ranges_[helped_], members);
    for (uint32_t i = 1; i < members; ++i)
      summed += sum_run(helped_, chunks, (layout_.rank + i) % members);
  }
  if (summed > 0)
    contribute(summed);
}

/// sum_arrived, while the others know that this member is inside: who ends the
/// group waits for it.
void SharedReducer::sum_inside(bool for_others) {
  std::atomic_ref busy(control_->member(layout_.rank).busy);
  busy.store(1, std::memory_order_seq_cst);
  try {
    sum_arrived(for_others);
  } catch (const std::exception& error) {
    end_with(CollectiveEnd::aborted,
             member_name(layout_.rank) + ": " + error.what());
    busy.store(0, std::memory_order_release);
    still_busy();
    throw;
  }
  busy.store(0, std::memory_order_release);
}

/// Leaves their runs to the others: whoever comes last to a bucket has the most
/// to compute still.
void SharedReducer::progress() {
  if (next_ < ranges_.size() && all_started() && compare() && arrived(next_))
    sum_inside(false);
}

/// Waits for everybody's next move; a deadline that passes ends the group.
template <class Condition>
bool SharedReducer::waits(const Condition& condition, Deadline deadline) {
  if (control_->wait(condition, deadline))
    return true;
  if (!control_->ended())
    end_with(CollectiveEnd::late, late_reason());
  return false;
}

CollectiveResult SharedReducer::finish(Deadline deadline) {
  require(under_way_ && readied_ == ranges_.size(),
          "finish() before all buckets are ready");
  under_way_ = false;
  bool goes_on = waits([&] { return all_started(); }, deadline) && compare();
  while (goes_on && helped_ < ranges_.size() && !control_->ended()) {
    goes_on = waits([&] { return next_ == ranges_.size() || arrived(next_); },
                    deadline);
    if (goes_on)
      sum_inside(true);
  }
  if (goes_on)
    waits([&] { return control_->completed() >= sequence_; }, deadline);
  return result();
}

CollectiveResult SharedReducer::plain(const SumProgram& program, float* data,
                                      size_t count, Deadline deadline) {
  is_plain_ = true;
  sum_.set_program(program);
  sum_.update = nullptr;
  plain_range_ = {0, count};
  begin(0, count, {&plain_range_, 1});
  publish({&data, 1}, {&data, 1});
  return finish(deadline);
}

/// The sum of one term is that term.
CollectiveResult SharedReducer::broadcast(float* data, size_t count,
                                          uint32_t root, Deadline deadline) {
  return plain({{root, 0, 0}}, data, count, deadline);
}

CollectiveResult SharedReducer::all_reduce(float* data, size_t count,
                                           Deadline deadline) {
  if (count > short_elements(layout_.members))
    return plain(tree_, data, count, deadline);
  is_plain_ = true;
  sum_.set_program(tree_);
  sum_.update = nullptr;
  plain_range_ = {0, count};
  begin(0, count, {&plain_range_, 0});
  std::memcpy(control_->slot(layout_.rank, sequence_), data,
              count * sizeof(float));
  publish({}, {});
  auto ended = finish(deadline);
  if (ended.end == CollectiveEnd::done) {
    sum_.terms.clear();
    for (uint32_t i = 0; i < layout_.members; ++i)
      sum_.terms.push_back(control_->slot(i, sequence_));
    sum_.outs = {data};
    sum_.sum(0, count);
  }
  return ended;
}

CollectiveResult SharedReducer::result() {
  if (!differs_ && control_->completed() >= sequence_)
    return {};
  // Another thread of this member may be about to end it.
  while (!control_->ended())
    std::this_thread::yield();
  const auto stuck = still_busy();
  std::string_view reason;
  CollectiveResult ended{control_->end(reason), {}};
  ended.reason = reason;
  ended.spoils_memory = !stuck.empty();
  if (!stuck.empty())
    ended.reason += "; " + stuck
                    + " stopped inside a sum: its memory is not to"
                      " be used again";
  return ended;
}

/// After the end: waits until no member touches another's arrays; names one
/// that does not leave.
std::string SharedReducer::still_busy() {
  const auto limit = Clock::now() + time_to_leave;
  for (uint32_t i = 0; i < layout_.members; ++i) {
    std::atomic_ref busy(control_->member(i).busy);
    while (busy.load(std::memory_order_seq_cst) != 0 && !lost_[i]) {
      if (Clock::now() >= limit)
        return member_name(i);
      std::this_thread::yield();
    }
  }
  return {};
}

void SharedReducer::end_with(CollectiveEnd end, const std::string& reason) {
  if (!ending_.test_and_set())
    control_->end_by(layout_.rank, end, reason);
}

void SharedReducer::abort(const std::string& reason) {
  end_with(CollectiveEnd::aborted, reason);
}

/// Names what this member waited for in vain.
std::string SharedReducer::late_reason() const {
  const auto lacks = [this](uint32_t rank) {
    auto& member = control_->member(rank);
    if (!all_started())
      return Word(member.started).load() < sequence_;
    if (next_ < ranges_.size() && !arrived(next_))
      return Word(member.ready).load() <= ordinal_ + next_;
    return std::atomic_ref(member.busy).load() != 0;
  };
  std::string names;
  for (uint32_t i = 0; i < layout_.members; ++i)
    if (lacks(i))
      names += (names.empty() ? "" : ", ") + member_name(i);
  std::string what = is_plain_ ? "an all-reduce" : "a step";
  if (!is_plain_ && all_started() && next_ < ranges_.size())
    what = "bucket " + std::to_string(next_);
  return member_name(layout_.rank) + " waited for " + names + " to come to "
         + what + " until its deadline passed";
}

} // namespace troupe
