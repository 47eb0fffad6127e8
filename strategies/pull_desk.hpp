#pragma once

#include "strategies/role_id.hpp"

#include <cstdint>
#include <vector>

namespace troupe {

/// Which pulls of one owner wait, and what they may be given (PROTOCOL 8, 9).
/// A puller wants one version of every slice that is served here; a wish for a
/// newer one replaces the earlier, one for an older is a late copy.
///
/// A slice is served once its owner has heard that the version is applied. The
/// memory may be ahead of that, but the ledger is not behind: it goes on when
/// the update is ordered. So whoever is given version s + 1 may push step s + 1
/// at once.
class PullDesk {
public:
  explicit PullDesk(size_t slices = 0) : slices_(slices) {}

  /// Returns false for a late copy of an older wish.
  bool want(RoleId puller, uint64_t version);

  struct Answer {
    RoleId puller;
    uint64_t version = 0;
  };
  /// Returns who is to be given slice `local`, of which the memory holds
  /// versions from `oldest` on, and `applied` is known to be; each is returned
  /// once.
  std::vector<Answer> serve(size_t local, uint64_t oldest, uint64_t applied);

  /// Forgets all wishes; from here on so many slices are served.
  void reset(size_t slices);

private:
  struct Wish {
    RoleId puller;
    uint64_t version = 0;
    std::vector<bool> given; ///< per slice
    size_t missing = 0;
  };
  size_t slices_;
  std::vector<Wish> wishes_;
};

} // namespace troupe
