#include "tests/sim/voter_disk.hpp"

#include "kernels/base/error.hpp"
#include "tests/sim/runtime.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <utility>

namespace troupe::sim {
namespace {

/// Of a transaction, in µs.
constexpr uint64_t sync[2] = {100, 4'000};
constexpr uint64_t slow_sync[2] = {20'000, 400'000};
constexpr uint64_t stuck_sync[2] = {1'000'000, 3'000'000};

std::map<std::string, VoterDisk>& disks() {
  static std::map<std::string, VoterDisk> all;
  return all;
}

} // namespace

VoterDisk& VoterDisk::at(const std::string& path) {
  return disks()[path];
}

void VoterDisk::clear() {
  disks().clear();
}

void VoterDisk::open() const {
  if (Runtime::get().now() < unreadable_until)
    throw InputError("the voter's journal cannot be read (EIO)");
}

void VoterDisk::create() {
  events.clear();
  promised = 0;
}

void VoterDisk::begin(Change change) {
  auto& runtime = Runtime::get();
  const auto now = runtime.now();
  while (!changes_.empty() && changes_.front().end <= now)
    changes_.pop_front();
  const auto& range = now < stuck_until  ? stuck_sync
                      : now < slow_until ? slow_sync
                                         : sync;
  const auto time = runtime.random().between(range[0], range[1]);
  change.begin = changes_.empty() ? now : changes_.back().end;
  change.end = change.begin + time;
  changes_.push_back(std::move(change));
  runtime.holds_up(time);
}

void VoterDisk::append(std::vector<JournalEvent>& batch) {
  begin({0, 0, promised, events.size()});
  for (auto& event : batch) {
    event.id = events.empty() ? 1 : events.back().id + 1;
    events.push_back(event);
  }
}

void VoterDisk::fold(uint64_t until, FoldLimits limits) {
  replace(folded_until(until, events, limits));
}

void VoterDisk::replace(std::vector<JournalEvent> with) {
  begin({0, 0, promised, 0, std::exchange(events, std::move(with))});
}

void VoterDisk::cut(uint64_t keep) {
  const auto from = std::ranges::upper_bound(events, keep, {},
                                             &JournalEvent::id);
  begin({0,
         0,
         promised,
         static_cast<size_t>(from - events.begin()),
         {from, events.end()}});
  events.erase(from, events.end());
}

void VoterDisk::undo(const Change& change, std::vector<JournalEvent>& events) {
  events.resize(change.kept);
  events.insert(events.end(), change.removed.begin(), change.removed.end());
}

void VoterDisk::promise(uint64_t term) {
  begin({0, 0, promised, events.size()});
  promised = term;
}

void VoterDisk::crash() {
  auto& runtime = Runtime::get();
  while (!changes_.empty() && changes_.back().end > runtime.now()) {
    const auto& last = changes_.back();
    if (last.begin <= runtime.now() && runtime.random().chance(50))
      break;
    promised = last.promised;
    undo(last, events);
    changes_.pop_back();
  }
  changes_.clear();
}

bool VoterDisk::has_epoch(uint64_t term, uint64_t epoch) const {
  const auto is_in = [&](const std::vector<JournalEvent>& all) {
    return std::any_of(all.rbegin(), all.rend(), [&](const JournalEvent& x) {
      return x.term == term && x.kind == "epoch"
             && nlohmann::json::parse(x.body)["epoch"] == epoch;
    });
  };
  auto after_crash = events;
  auto known = is_in(after_crash);
  for (auto change = changes_.rbegin();
       known && change != changes_.rend() && change->end > Runtime::get().now();
       ++change) {
    undo(*change, after_crash);
    known = is_in(after_crash);
  }
  return known;
}

bool VoterDisk::knows_end() const {
  return !events.empty() && events.back().kind == "over";
}

} // namespace troupe::sim
