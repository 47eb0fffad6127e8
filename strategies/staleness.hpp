#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>

namespace troupe {

/// How an old push is damped: its learning rate is divided by 1 + staleness, or
/// by the root of that. Nothing but division and square roots, which every
/// machine rounds alike, so that replicas of a slice keep equal bits.
/// Source: Zhang, Gupta, Lian, Liu, "Staleness-aware Async-SGD for Distributed
/// Deep Learning" (IJCAI 2016).
enum class StalenessDamping : uint8_t { none, inverse_sqrt, inverse };
/// `staleness`: updates applied to the slice between the pull that the gradient
/// was computed on and the push.
float damped_rate(StalenessDamping damping, uint64_t staleness);

/// Bounded staleness (PROTOCOL 12, I5). Each live worker has a clock: the
/// leases of its own that are consumed. Its *lead* when it is given another
/// lease is its clock, plus the leases it holds, minus the slowest live clock.
/// A lease is given only where the lead is at most the bound; so bound 0 is
/// lockstep, and a worker never holds more leases than the bound allows.
///
///   members(…)      a newcomer's clock starts at the slowest of those who stay
///   leave(w)        a dead worker's clock goes; the others' bound looks up
///   may_begin(w)  -> begin(w) -> consumed(w) or taken_back(w)
///
/// Source: Ho et al., "More Effective Distributed ML via a Stale Synchronous
/// Parallel Parameter Server", NIPS 2013; clocks count leases here.
class StalenessClocks {
public:
  /// No bound: nobody waits; leads are recorded all the same.
  explicit StalenessClocks(std::optional<uint64_t> bound) : bound_(bound) {}

  void bound(std::optional<uint64_t> bound) { bound_ = bound; }
  /// Those who are live now; whoever is not named leaves.
  void members(const std::set<uint32_t>& workers);
  void leave(uint32_t worker);

  bool may_begin(uint32_t worker) const;
  /// The worker was given a lease.
  /// Errors: one that may not begin is a bug of the caller; it asserts (I5).
  void begin(uint32_t worker);
  /// One of the worker's leases is consumed.
  void consumed(uint32_t worker);
  /// One of its leases was given to somebody else.
  void taken_back(uint32_t worker);

  /// Largest lead of any worker that was given a lease.
  uint64_t max_lead() const { return max_lead_; }
  uint64_t clock(uint32_t worker) const;

private:
  struct Clock {
    uint64_t consumed = 0;
    uint64_t held = 0;
  };

  uint64_t slowest() const;
  uint64_t lead(const Clock& clock) const;

  std::optional<uint64_t> bound_;
  std::map<uint32_t, Clock> clocks_;
  uint64_t max_lead_ = 0;
};

} // namespace troupe
