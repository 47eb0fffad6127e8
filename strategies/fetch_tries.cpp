#include "strategies/fetch_tries.hpp"

#include <algorithm>

namespace troupe {

namespace {

/// Whether the same request may have another end.
bool may_be_mended(FetchEnd end) {
  switch (end) {
    case FetchEnd::unresolved:
    case FetchEnd::unreachable:
    case FetchEnd::cut:
    case FetchEnd::stalled:
    case FetchEnd::busy:
    case FetchEnd::failed:
      return true;
    case FetchEnd::whole:
    case FetchEnd::untrusted:
    case FetchEnd::refused:
    case FetchEnd::missing:
    case FetchEnd::changed:
    case FetchEnd::no_ranges:
    case FetchEnd::odd:
    case FetchEnd::ended:
      return false;
  }
  return false;
}

bool is_an_answer(FetchEnd end) {
  return end != FetchEnd::unresolved && end != FetchEnd::unreachable
         && end != FetchEnd::untrusted && end != FetchEnd::stalled
         && end != FetchEnd::ended;
}

} // namespace

const char* to_string(FetchEnd end) {
  switch (end) {
    case FetchEnd::whole:
      return "whole";
    case FetchEnd::unresolved:
      return "unresolved";
    case FetchEnd::unreachable:
      return "unreachable";
    case FetchEnd::untrusted:
      return "untrusted";
    case FetchEnd::cut:
      return "cut";
    case FetchEnd::stalled:
      return "stalled";
    case FetchEnd::busy:
      return "busy";
    case FetchEnd::failed:
      return "failed";
    case FetchEnd::refused:
      return "refused";
    case FetchEnd::missing:
      return "missing";
    case FetchEnd::changed:
      return "changed";
    case FetchEnd::no_ranges:
      return "no_ranges";
    case FetchEnd::odd:
      return "odd";
    case FetchEnd::ended:
      return "ended";
  }
  return "?";
}

FetchTries::FetchTries(const Options& options, bool has_answered,
                       uint64_t now_ms)
  : options_(options),
    rest_(options.rest),
    until_ms_(now_ms + options.deadline_ms),
    has_answered_(has_answered) {}

uint64_t FetchTries::left_ms(uint64_t now_ms) const {
  return now_ms < until_ms_ ? until_ms_ - now_ms : 0;
}

TryVerdict FetchTries::ended(FetchEnd end, uint64_t now_ms, uint64_t later_ms,
                             uint64_t drawn) {
  ++tries_;
  has_answered_ = has_answered_ || is_an_answer(end);
  if (end == FetchEnd::whole)
    return {false, 0, "all is there"};
  if (!may_be_mended(end))
    return {false, 0, "another try would end alike"};
  if (!has_answered_ && tries_ >= options_.unknown_tries)
    return {false, 0, "nothing has ever answered there"};
  const auto rest = std::max(rest_.next_ms(drawn), later_ms);
  if (rest >= left_ms(now_ms))
    return {false, 0, "the deadline is over before the next try"};
  return {true, rest, "another try may end otherwise"};
}

} // namespace troupe
