#include "tests/sim/journal_disk.hpp"

#include <nlohmann/json.hpp>

namespace troupe::sim {
namespace {

/// Of a transaction, in µs.
constexpr uint64_t sync[2] = {100, 4'000};
constexpr uint64_t slow_sync[2] = {20'000, 400'000};
constexpr uint64_t stuck_sync[2] = {1'000'000, 3'000'000};

} // namespace

void JournalDisk::add(std::vector<JournalEvent> batch) {
  if (full)
    return;
  for (auto& event : batch) {
    event.id = events.size() + 1;
    if (event.kind == "epoch")
      newest_epoch_ = nlohmann::json::parse(event.body)["epoch"];
    events.push_back(std::move(event));
  }
}

void SimulatedJournal::append(JournalEvent event,
                              std::function<void()> synced) {
  waiting_.push_back(std::move(event));
  if (synced)
    then_.push_back(std::move(synced));
  if (!busy_)
    write();
}

void SimulatedJournal::write() {
  busy_ = true;
  batch_ = std::exchange(waiting_, {});
  auto& runtime = Runtime::get();
  const auto& time = runtime.now() < disk_.stuck_until  ? stuck_sync
                     : runtime.now() < disk_.slow_until ? slow_sync
                                                        : sync;
  runtime.in_process(process_, runtime.random().between(time[0], time[1]),
                     lives_, [this, then = std::exchange(then_, {})] {
                       disk_.add(std::exchange(batch_, {}));
                       for (const auto& synced : then)
                         synced();
                       busy_ = false;
                       if (!waiting_.empty())
                         write();
                     });
}

void SimulatedJournal::crash() {
  if (Runtime::get().random().chance(50))
    disk_.add(std::move(batch_));
  batch_.clear();
}

} // namespace troupe::sim
