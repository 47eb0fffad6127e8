#include "strategies/sharded_course.hpp"

#include "strategies/require.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

ShardedCourse::ShardedCourse(StepNodes& nodes, Options options)
  : nodes_(nodes), options_(options), parts_(options.parts, Here::no) {
  strategies::require(options.parts > 0 && options.window > 0,
                      "a model without parts, or no window");
}

void ShardedCourse::seal() {
  phase_ = Phase::sealed;
  std::ranges::fill(parts_, Here::no);
  leaves_.clear();
  next_ = 0;
  passing_ = repeated_ = false;
}

ShardedCourse::Actions ShardedCourse::begin_epoch(uint64_t version,
                                                  uint64_t end) {
  strategies::require(phase_ == Phase::sealed && version == nodes_.step(),
                      "an epoch that does not begin with a seal");
  end_ = end;
  paused_ = false;
  phase_ = version < end ? Phase::going : Phase::idle;
  take_leaves();
  Actions out;
  go_on(out);
  return out;
}

ShardedCourse::Actions ShardedCourse::gathered(uint32_t part) {
  strategies::require(awaits(part), "parameters that nobody asked for");
  parts_[part] = Here::yes;
  Actions out;
  go_on(out);
  return out;
}

ShardedCourse::Actions ShardedCourse::passed() {
  strategies::require(passing_, "no pass runs");
  passing_ = false;
  ++next_;
  if (next_ % (2 * options_.parts) == 0)
    repeated_ = false;
  Actions out;
  go_on(out);
  return out;
}

ShardedCourse::Actions ShardedCourse::repeat() {
  strategies::require(passing_ && !repeated_, "a leaf is repeated once");
  passing_ = false;
  repeated_ = true;
  next_ -= next_ % (2 * options_.parts);
  Actions out;
  go_on(out);
  return out;
}

void ShardedCourse::pause() {
  paused_ = true;
  if (phase_ == Phase::going && !has_begun())
    phase_ = Phase::idle;
}

ShardedCourse::Actions ShardedCourse::end_at(uint64_t step) {
  end_ = step;
  paused_ = false;
  Actions out;
  if (phase_ == Phase::idle && nodes_.step() < end_) {
    phase_ = Phase::going;
    go_on(out);
  }
  return out;
}

uint64_t ShardedCourse::next_step() const {
  return nodes_.step() + (has_begun() ? 1 : 0);
}

uint32_t ShardedCourse::part_of(size_t pass) const {
  const auto of_leaf = static_cast<uint32_t>(pass % (2 * options_.parts));
  return of_leaf < options_.parts ? of_leaf : 2 * options_.parts - 1 - of_leaf;
}

/// For a pass of the window.
bool ShardedCourse::needs(uint32_t part) const {
  for (auto i = next_; i < std::min(next_ + options_.window, passes()); ++i)
    if (part_of(i) == part)
      return true;
  return false;
}

void ShardedCourse::take_leaves() {
  leaves_.clear();
  for (auto node : nodes_.of(nodes_.step()))
    for (auto rank = node.lo; rank < node.hi; ++rank)
      leaves_.push_back(rank);
  next_ = 0;
}

bool ShardedCourse::begin_next(Actions& out) {
  for (uint32_t part = 0; part < options_.parts; ++part)
    if (std::exchange(parts_[part], Here::no) != Here::no)
      out.push_back(Drop{part});
  nodes_.begin_step(nodes_.step() + 1);
  out.push_back(NextStep{});
  take_leaves();
  if (nodes_.step() >= end_ || paused_ || leaves_.empty())
    phase_ = Phase::idle;
  return phase_ == Phase::going;
}

void ShardedCourse::go_on(Actions& out) {
  if (phase_ != Phase::going || (next_ == passes() && !begin_next(out)))
    return;
  for (uint32_t part = 0; part < options_.parts && !options_.keeps; ++part)
    if (parts_[part] == Here::yes && !needs(part)) {
      parts_[part] = Here::no;
      out.push_back(Drop{part});
    }
  const auto ahead = std::min(next_ + options_.window, passes());
  for (auto i = next_; i < ahead; ++i)
    if (auto& part = parts_[part_of(i)]; part == Here::no) {
      part = Here::asked;
      out.push_back(Gather{part_of(i), nodes_.step()});
    }
  const auto part = part_of(next_);
  if (passing_ || parts_[part] != Here::yes)
    return;
  passing_ = true;
  const auto leaf = next_ / (2 * options_.parts);
  out.push_back(Pass{nodes_.step(), leaves_[leaf], part,
                     next_ % (2 * options_.parts) < options_.parts, ++turn_});
}

} // namespace troupe
