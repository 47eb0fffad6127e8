#pragma once

#include "strategies/consistency.hpp"

#include <optional>

namespace troupe {

/// Takes a running job from one period to the next (consistency.hpp).
///
///   steady --ask--> draining --drain_at(step)--> … whole at that step
///     ^                |  ^                          |
///     |                +--+ an epoch change          | the next epoch
///     +------------- take_place() -------------------+
///
/// While it drains nobody begins what lies beyond `step`: synchronous workers
/// end there, of asynchronous ones the leases below it are granted and no more.
/// When all of that is applied everywhere the members are asked to seal, and
/// the next epoch begins the period. A death meanwhile changes the epoch and
/// nothing else: the drain begins anew. Another bound on staleness drains
/// nothing.
class ConsistencySwitch {
public:
  ConsistencySwitch(Consistency first, uint32_t virtual_ranks)
    : now_(first), virtual_ranks_(virtual_ranks) {}

  /// Of the period that lasts.
  const Consistency& now() const { return now_; }
  bool pending() const { return wanted_.has_value(); }
  /// Whether what is pending changes the bound alone.
  bool bound_only() const;

  /// Errors: one that is pending, or the same as now, is a bug of the caller,
  /// who asks pending() and is_now(); it asserts.
  void ask(Consistency mode);
  bool is_now(const Consistency& mode) const;

  /// Everything stops before this step; it is not known again after an epoch
  /// change.
  void drain_at(uint64_t step) { drain_ = step; }
  void drain_again() { drain_.reset(); }
  std::optional<uint64_t> drain() const { return drain_; }

  /// The next epoch begins what was asked for, at drain().
  const Consistency& take_place();
  /// The job went back to the step and updates of `at`; the mode stays.
  void start_over(const Consistency& at);

private:
  Consistency now_;
  uint32_t virtual_ranks_;
  std::optional<Consistency> wanted_; ///< its mode
  std::optional<uint64_t> drain_;
};

} // namespace troupe
