#pragma once

#include "actors/wire/messages.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

namespace troupe {

/// What has come from the stages beside a stage and is not used yet: of the
/// step in hand, and of the next one, which a faster neighbour may begin.
class StageInbox {
public:
  /// Takes a run; `total`: elements of its crossing.
  /// Errors: false for a run that does not follow those before it.
  bool put(const StageValues& run, uint64_t total);
  /// Tells whether all of a crossing is there.
  bool has(uint64_t step, StageStream stream, uint32_t rank) const;
  /// All of a crossing as one tensor, once it is there; it is gone from here
  /// then.
  std::optional<TensorView> take(uint64_t step, StageStream stream,
                                 uint32_t rank);
  void clear() { crossings_.clear(); }

private:
  struct Crossing {
    std::vector<TensorView> runs;
    uint64_t elements = 0;
    uint64_t total = 0;
  };
  std::map<std::tuple<uint64_t, StageStream, uint32_t>, Crossing> crossings_;
};

/// A crossing as runs that a message can carry; one that is empty is a run too.
std::vector<StageValues> runs_of(const Fence& fence, uint64_t step,
                                 StageStream stream, uint32_t rank,
                                 const TensorView& values);

} // namespace troupe
