#pragma once

#include "actors/wire/messages/supervision.hpp"
#include "kernels/graph/graph.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

/// Puts together what roles tell of parts of a parameter, as files know it.
class SpreadBook {
public:
  explicit SpreadBook(const Graph& graph);

  struct Whole {
    std::string name; ///< "dense_0/weight"
    bool trained = true;
    uint64_t step = 0;
    ValueSpread values;
    ValueSpread gradient;
  };
  /// Returns the parameter that is whole by that, if one is. Several may tell
  /// of the same elements, and a step may come again: the first one counts.
  std::optional<Whole> add(const Spreads& part);

private:
  /// By its variable and first element.
  using Begin = std::pair<uint32_t, uint64_t>;
  struct Partial {
    std::map<Begin, uint64_t> ends;
    uint64_t elements = 0;
    ValueSpread values;
    ValueSpread gradient;
  };
  struct Known {
    std::string name;
    bool trained = true;
    uint64_t elements = 0;
    uint64_t done = 0;                   ///< the newest step that was whole
    std::map<uint64_t, Partial> steps{}; ///< newer ones
  };

  static bool is_known(const Partial& partial, const Spreads& part);

  std::vector<uint32_t> whole_of_; ///< by variable
  std::vector<uint64_t> sizes_;    ///< the same
  std::vector<Known> wholes_;
};

} // namespace troupe
