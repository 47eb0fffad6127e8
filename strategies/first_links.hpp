#pragma once

#include "strategies/role_id.hpp"

#include <cstdint>
#include <map>
#include <string>

namespace troupe {

/// Decides what it means that roles cannot link before the first step: after a
/// few attempts it is no accident, but an address that others do not reach.
/// Pure: times are milliseconds of any steady clock.
class FirstLinks {
public:
  struct Options {
    uint64_t attempts = 2; ///< of one role
    uint64_t patience_ms = 4'000;
  };
  struct Verdict {
    std::string note; ///< empty: it was said already
    std::string fail; ///< empty: the next epoch tries again
  };

  FirstLinks() = default;
  explicit FirstLinks(const Options& options) : options_(options) {}

  /// A role says which links it lacks, and why.
  Verdict lost(RoleId role, const std::string& reason, uint64_t now_ms);

private:
  struct Known {
    std::string reason; ///< the newest
    uint64_t attempts = 0;
    uint64_t since_ms = 0;
  };

  Options options_;
  std::map<RoleId, Known> known_;
};

} // namespace troupe
