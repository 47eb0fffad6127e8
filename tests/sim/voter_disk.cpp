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
    event.id = events.size() + 1;
    events.push_back(event);
  }
}

void VoterDisk::cut(uint64_t keep) {
  const auto from = events.begin() + static_cast<std::ptrdiff_t>(keep);
  begin({0, 0, promised, keep, {from, events.end()}});
  events.erase(from, events.end());
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
    events.resize(last.kept);
    events.insert(events.end(), last.removed.begin(), last.removed.end());
    changes_.pop_back();
  }
  changes_.clear();
}

bool VoterDisk::has_epoch(uint64_t term, uint64_t epoch) const {
  auto end = events.size();
  for (const auto& change : changes_)
    if (change.end > Runtime::get().now())
      end = std::min(end, change.kept);
  const auto is_it = [&](const JournalEvent& x) {
    return x.term == term && x.kind == "epoch"
           && nlohmann::json::parse(x.body)["epoch"] == epoch;
  };
  return std::any_of(events.rend() - static_cast<std::ptrdiff_t>(end),
                     events.rend(), is_it);
}

bool VoterDisk::knows_end() const {
  return !events.empty() && events.back().kind == "over";
}

} // namespace troupe::sim
