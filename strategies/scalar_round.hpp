#pragma once

#include <compare>
#include <cstdint>
#include <string_view>
#include <vector>

namespace troupe {

/// The decider's account of whose block sums are there (PROTOCOL 5): a step
/// that needs scalars over all variables takes some rounds of
///
///   every slice: sums -> decider -> scalars, written down -> every slice
///
/// before it is applied. Holds ids only, never sums. What is decided is written
/// down before anybody is told, so whoever asks again (its process or the
/// decider's died, the epoch changed) is answered from there and not offered
/// here; a slice that has applied the step need not be asked again.
class ScalarRound {
public:
  struct Key {
    uint64_t step = 0;
    uint32_t round = 0;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  enum class Verdict { accept, duplicate, stale };
  struct Decision {
    Verdict verdict = Verdict::stale;
    std::string_view reason;
    bool begins = false;   ///< the first of its round: forget older sums
    bool complete = false; ///< every slice's sums are there: decide
  };

  explicit ScalarRound(uint32_t slices) : present_(slices, false) {}

  /// Sums of a slice arrived. Those of a newer round begin it: they prove that
  /// the one before was decided.
  /// Errors: a slice that is not there is a bug of the caller; it asserts.
  Decision offer(Key key, uint32_t slice);
  /// The epoch changed: all that wait will ask again.
  void forget();

private:
  std::vector<bool> present_;
  uint32_t missing_ = 0;
  Key key_;
  bool begun_ = false;
};

} // namespace troupe
