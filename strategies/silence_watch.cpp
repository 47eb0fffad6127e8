#include "strategies/silence_watch.hpp"

#include <algorithm>
#include <utility>

namespace troupe {
namespace {

/// A tick that comes so many times too late tells of a process that stood
/// still.
constexpr uint64_t late_ticks = 3;
constexpr uint64_t ms_of_a_second = 1'000;

/// "1.1 s"
std::string seconds(uint64_t ms) {
  const auto tenths = (ms * 10 + ms_of_a_second / 2) / ms_of_a_second;
  return std::to_string(tenths / 10) + '.' + std::to_string(tenths % 10) + " s";
}

} // namespace

void SilenceWatch::joined(RoleId role, uint64_t now_ms) {
  members_[role] = {now_ms};
  if (learning_since_ms_ == 0)
    learning_since_ms_ = now_ms;
}

void SilenceWatch::heard(RoleId role, uint64_t now_ms) {
  const auto known = members_.find(role);
  if (known == members_.end())
    return;
  const auto before = std::exchange(known->second, {now_ms, false});
  if (!is_late(now_ms) && !before.begins)
    longest_ms_ = std::max(longest_ms_,
                           now_ms - std::min(before.heard_ms, now_ms));
}

uint64_t SilenceWatch::silent_ms(RoleId role, uint64_t now_ms) const {
  const auto known = members_.find(role);
  return known == members_.end()
           ? 0
           : now_ms - std::min(known->second.heard_ms, now_ms);
}

bool SilenceWatch::is_late(uint64_t now_ms) const {
  return now_ms - ticked_ms_ > late_ticks * options_.tick_ms;
}

uint64_t SilenceWatch::limit_ms(uint64_t now_ms) const {
  const auto least = now_ms - learning_since_ms_ < options_.learn_ms
                         || learning_since_ms_ == 0
                       ? std::max(options_.first_ms, options_.min_ms)
                       : options_.min_ms;
  const auto longest = std::max(longest_ms_, before_ms_);
  return std::clamp(options_.factor * longest, std::min(least, options_.max_ms),
                    options_.max_ms);
}

void SilenceWatch::raise_min(uint64_t min_ms) {
  options_.min_ms = std::max(options_.min_ms, min_ms);
  options_.max_ms = std::max(options_.max_ms, min_ms);
}

std::vector<SilenceWatch::Silent> SilenceWatch::tick(uint64_t now_ms) {
  if (is_late(now_ms))
    for (auto& [role, member] : members_)
      member.heard_ms = std::min(member.heard_ms + (now_ms - ticked_ms_),
                                 now_ms);
  ticked_ms_ = now_ms;
  if (now_ms - window_began_ms_ >= options_.window_ms) {
    window_began_ms_ = now_ms;
    before_ms_ = std::exchange(longest_ms_, 0);
  }
  const auto limit = limit_ms(now_ms);
  std::vector<Silent> out;
  for (const auto& [role, member] : members_)
    if (now_ms - member.heard_ms > limit)
      out.push_back({role, "silent for " + seconds(now_ms - member.heard_ms)
                             + ", more than the " + seconds(limit)
                             + " that may be"});
  for (const auto& silent : out)
    gone(silent.role);
  return out;
}

} // namespace troupe
