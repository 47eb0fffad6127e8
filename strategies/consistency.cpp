#include "strategies/consistency.hpp"

#include "strategies/require.hpp"

#include <charconv>
#include <string_view>

namespace troupe {

Consistency Consistency::next(bool next_async, int64_t bound,
                              uint64_t next_step,
                              uint32_t virtual_ranks) const {
  strategies::require(next_step >= step, "a period begins before the last one");
  const auto steps = next_step - step;
  Consistency out;
  out.async = next_async;
  out.staleness = next_async ? bound : -1;
  out.period = period + 1;
  out.step = next_step;
  out.updates = updates + (async ? steps * virtual_ranks : steps);
  return out;
}

std::string to_string(const Consistency& x) {
  if (!x.async)
    return "sync";
  return x.staleness < 0 ? "async" : "staleness:" + std::to_string(x.staleness);
}

bool parse(const std::string& text, Consistency& out) {
  constexpr std::string_view bounded = "staleness:";
  out.staleness = -1;
  out.async = text != "sync";
  if (text == "sync" || text == "async")
    return true;
  if (!text.starts_with(bounded))
    return false;
  const auto* end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data() + bounded.size(),
                                               end, out.staleness);
  return failure == std::errc{} && stop == end && out.staleness >= 0;
}

} // namespace troupe
