#include "strategies/lease_pipeline.hpp"

#include "strategies/require.hpp"

namespace troupe {
namespace {

/// Below how many waiting leases more are asked for.
constexpr size_t low_water = 3;

} // namespace

void LeasePipeline::clear() {
  *this = LeasePipeline{ahead_};
}

void LeasePipeline::granted(const std::vector<uint64_t>& leases) {
  asked_ = false;
  waiting_.insert(waiting_.end(), leases.begin(), leases.end());
}

bool LeasePipeline::ask() {
  if (asked_ || waiting_.size() >= low_water)
    return false;
  return asked_ = true;
}

std::optional<uint64_t> LeasePipeline::pull() {
  if (next_ || waiting_.empty() || (computing_ && !ahead_))
    return std::nullopt;
  next_ = waiting_.front();
  waiting_.pop_front();
  pulling_ = true;
  return next_;
}

void LeasePipeline::pulled() {
  strategies::require(pulling_, "nothing was pulled for");
  pulling_ = false;
}

std::optional<uint64_t> LeasePipeline::compute() {
  if (computing_ || pulling_ || !next_)
    return std::nullopt;
  computing_ = true;
  const auto lease = next_;
  next_.reset();
  return lease;
}

void LeasePipeline::computed() {
  strategies::require(computing_, "nothing was computed");
  computing_ = false;
}

std::optional<uint64_t> LeasePipeline::following() const {
  if (waiting_.empty())
    return std::nullopt;
  return waiting_.front();
}

} // namespace troupe
