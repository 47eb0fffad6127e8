#include "strategies/time_ledger.hpp"

#include "strategies/require.hpp"

#include <algorithm>
#include <utility>

namespace troupe {
namespace {

/// What of the spans lies within the run, without those that have no length.
std::vector<TimeSpan> within(const std::vector<TimeSpan>& spans, TimeSpan run) {
  std::vector<TimeSpan> out;
  for (const auto& span : spans) {
    const TimeSpan part{std::max(span.begin, run.begin),
                        std::min(span.end, run.end)};
    if (part.begin < part.end)
      out.push_back(part);
  }
  return out;
}

/// How long at least one of the spans lasts.
int64_t covered(std::vector<TimeSpan> spans) {
  std::ranges::sort(spans, {}, &TimeSpan::begin);
  int64_t sum = 0;
  int64_t until = 0;
  bool any = false;
  for (const auto& span : spans) {
    const auto begin = any ? std::max(span.begin, until) : span.begin;
    sum += std::max<int64_t>(0, span.end - begin);
    until = any ? std::max(until, span.end) : span.end;
    any = true;
  }
  return sum;
}

struct Extent {
  TimeSpan from_to;
  bool whole = true;
};

} // namespace

const char* to_string(TimeCause cause) {
  constexpr std::array<const char*, time_causes> names{
    "compute", "exchange", "data", "start", "recovery", "unrecorded", "idle"};
  return names[static_cast<size_t>(cause)];
}

TimeLedger time_ledger(const std::vector<RoleLife>& lives, TimeSpan run) {
  strategies::require(run.begin <= run.end,
                      "a run does not end before it begins");
  TimeLedger out{};
  const auto at = [&](TimeCause cause) -> int64_t& {
    return out[static_cast<size_t>(cause)];
  };
  std::vector<TimeSpan> waited;
  std::vector<TimeSpan> computed; // and waited
  std::vector<TimeSpan> all;
  std::vector<Extent> extents;
  for (const auto& life : lives) {
    const auto data = within(life.data, run);
    auto compute = within(life.compute, run);
    compute.insert(compute.end(), data.begin(), data.end());
    auto own = within(life.exchange, run);
    own.insert(own.end(), compute.begin(), compute.end());
    if (own.empty())
      continue;
    Extent extent{own.front(), life.whole};
    for (const auto& span : own) {
      extent.from_to.begin = std::min(extent.from_to.begin, span.begin);
      extent.from_to.end = std::max(extent.from_to.end, span.end);
    }
    extents.push_back(extent);
    waited.insert(waited.end(), data.begin(), data.end());
    computed.insert(computed.end(), compute.begin(), compute.end());
    all.insert(all.end(), own.begin(), own.end());
  }
  std::ranges::sort(extents, {},
                    [](const Extent& x) { return x.from_to.begin; });
  // What precedes a life belongs to its coming up.
  auto known = run.begin;
  bool first = true;
  for (const auto& extent : extents) {
    const auto cause = !extent.whole ? TimeCause::unrecorded
                       : first       ? TimeCause::start
                                     : TimeCause::recovery;
    at(cause) += std::max<int64_t>(0, extent.from_to.begin - known);
    known = std::max(known, extent.from_to.end);
    first = false;
  }
  const auto busy = covered(std::move(all));
  const auto beside = covered(std::move(computed)); // exchange
  at(TimeCause::data) = covered(std::move(waited));
  at(TimeCause::compute) = beside - at(TimeCause::data);
  at(TimeCause::exchange) = busy - beside;
  int64_t booked = 0;
  for (const auto one : out)
    booked += one;
  at(TimeCause::idle) = run.end - run.begin - booked;
  return out;
}

} // namespace troupe
