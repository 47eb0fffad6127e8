#include "actors/stores/store_options.hpp"

#include "kernels/base/error.hpp"

#include <charconv>
#include <limits>
#include <string_view>

namespace troupe {

void parse_data_cache(const std::string& text, StoreOptions& out) {
  const auto refuse = [&] {
    throw UsageError("expected DIR:SIZE, with a SIZE such as 500M or 20G");
  };
  const auto colon = text.rfind(':');
  if (colon == text.npos || colon == 0 || colon + 1 == text.size())
    refuse();
  uint64_t value = 0;
  const auto* last = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + colon + 1, last,
                                             value);
  constexpr std::string_view units = "KMGT";
  const auto unit = stop == last ? units.npos : units.find(*stop);
  if (error != std::errc{} || last - stop > 1
      || (stop != last && unit == units.npos))
    refuse();
  const auto shift = stop == last ? 0 : 10 * (unit + 1);
  constexpr uint64_t most = std::numeric_limits<int64_t>::max();
  if (value > most >> shift)
    refuse();
  out.cache_dir = text.substr(0, colon);
  out.cache_bytes = value << shift;
}

} // namespace troupe
