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

/// A life's spans, as far as they count.
struct Known {
  Known(const RoleLife& life, TimeSpan run)
    : waited(within(life.data, run)),
      computed(within(life.compute, run)),
      all(within(life.exchange, run)) {
    computed.insert(computed.end(), waited.begin(), waited.end());
    all.insert(all.end(), computed.begin(), computed.end());
  }

  std::vector<TimeSpan> waited;
  std::vector<TimeSpan> computed; ///< and waited
  std::vector<TimeSpan> all;
};

void append(std::vector<TimeSpan>& to, const std::vector<TimeSpan>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

BookedTime booked(std::vector<TimeSpan> waited, std::vector<TimeSpan> computed,
                  std::vector<TimeSpan> all) {
  BookedTime out;
  const auto busy = covered(std::move(all));
  const auto beside = covered(std::move(computed)); // exchange
  out.data = covered(std::move(waited));
  out.compute = beside - out.data;
  out.exchange = busy - beside;
  return out;
}

bool lies_in(TimeSpan span, TimeSpan run) {
  return run.begin <= span.begin && span.begin <= span.end
         && span.end <= run.end;
}

} // namespace

BookedTime& BookedTime::operator+=(const BookedTime& more) {
  data += more.data;
  compute += more.compute;
  exchange += more.exchange;
  return *this;
}

void EarlierTime::follow(const EarlierTime& life) {
  if (life.span.begin >= span.end) {
    recovery += life.span.begin - span.end + life.recovery;
    booked += life.booked;
  }
  span.end = std::max(span.end, life.span.end);
}

BookedTime RoleLife::booked(TimeSpan within) const {
  Known known{*this, within};
  return troupe::booked(std::move(known.waited), std::move(known.computed),
                        std::move(known.all));
}

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
  const auto add = [&](const BookedTime& booked) {
    at(TimeCause::data) += booked.data;
    at(TimeCause::compute) += booked.compute;
    at(TimeCause::exchange) += booked.exchange;
  };
  std::vector<TimeSpan> waited;
  std::vector<TimeSpan> computed; // and waited
  std::vector<TimeSpan> all;
  std::vector<Extent> extents;
  for (const auto& life : lives) {
    const bool goes_back = life.earlier && lies_in(life.earlier->span, run);
    const TimeSpan rest{goes_back ? life.earlier->span.end : run.begin,
                        run.end};
    const Known known{life, rest};
    auto own = known.all;
    if (goes_back) {
      own.push_back(life.earlier->span);
      add(life.earlier->booked);
      at(TimeCause::recovery) += life.earlier->recovery;
    }
    if (own.empty())
      continue;
    Extent extent{own.front(), life.whole || goes_back};
    for (const auto& span : own) {
      extent.from_to.begin = std::min(extent.from_to.begin, span.begin);
      extent.from_to.end = std::max(extent.from_to.end, span.end);
    }
    extents.push_back(extent);
    append(waited, known.waited);
    append(computed, known.computed);
    append(all, known.all);
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
  add(booked(std::move(waited), std::move(computed), std::move(all)));
  int64_t sum = 0;
  for (const auto one : out)
    sum += one;
  at(TimeCause::idle) = run.end - run.begin - sum;
  return out;
}

} // namespace troupe
