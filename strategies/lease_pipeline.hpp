#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace troupe {

/// A worker's leases on their way: each is pulled for, then computed, one after
/// the other. Ahead: the next one is pulled for while one is computed, so its
/// parameters lack that one's own gradient.
///
///     granted -> pull() -> pulled() -> compute() -> computed()
///
class LeasePipeline {
public:
  explicit LeasePipeline(bool ahead) : ahead_(ahead) {}

  /// An epoch begins: the leases have gone back.
  void clear();
  void granted(const std::vector<uint64_t>& leases);
  /// Returns whether to ask for more leases; true once until they come.
  bool ask();

  /// The lease to pull for now; from here on it is being pulled for.
  std::optional<uint64_t> pull();
  /// All parameters are there for it.
  void pulled();
  /// The lease to compute now; from here on it is computed.
  std::optional<uint64_t> compute();
  void computed();

  bool pulling() const { return pulling_; }
  /// The lease after the one that is being pulled for.
  std::optional<uint64_t> following() const;

private:
  bool ahead_;
  bool asked_ = false;
  std::deque<uint64_t> waiting_; ///< granted, not pulled for
  bool pulling_ = false;
  std::optional<uint64_t> next_; ///< pulled for, or being pulled for
  bool computing_ = false;
};

} // namespace troupe
