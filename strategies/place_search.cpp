#include "strategies/place_search.hpp"

#include "strategies/require.hpp"

#include <algorithm>

namespace troupe {

PlaceSearch::PlaceSearch(Options options) : options_(options) {
  strategies::require(options_.places > 0 && options_.first_ms > 0
                        && options_.first_ms <= options_.max_ms,
                      "nowhere to look, or no time to");
  begin();
}

void PlaceSearch::begin() {
  patience_.assign(options_.places,
                   options_.places > 1 ? options_.first_ms : options_.max_ms);
}

PlaceSearch::Try PlaceSearch::next(bool briefly) {
  place_ = (place_ + 1) % options_.places;
  return {place_, briefly ? options_.first_ms : patience_[place_]};
}

void PlaceSearch::ran_out() {
  auto& patience = patience_[place_];
  const auto most = options_.places > 1
                      ? options_.max_ms
                      : std::max(options_.max_ms, options_.max_single_ms);
  patience = std::min(2 * patience, most);
}

} // namespace troupe
