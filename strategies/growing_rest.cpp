#include "strategies/growing_rest.hpp"

#include "strategies/require.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

GrowingRest::GrowingRest(const Options& options)
  : options_(options), whole_ms_(options.first_ms) {
  strategies::require(options.first_ms > 0
                        && options.first_ms <= options.max_ms,
                      "a rest that is none, or longer than the longest");
}

uint64_t GrowingRest::next_ms(uint64_t drawn) {
  const auto whole = std::exchange(whole_ms_, whole_ms_ > options_.max_ms / 2
                                                ? options_.max_ms
                                                : 2 * whole_ms_);
  const auto half = whole / 2;
  return whole - drawn % (half + 1);
}

} // namespace troupe
