#pragma once

#include "actors/journal/event.hpp"
#include "tests/sim/runtime.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace troupe::sim {

/// What outlives a coordinator of its journal: what was synced. A transaction
/// is there whole or not at all, as SQLite's are.
struct JournalDisk {
  std::vector<JournalEvent> events;
  uint64_t slow_until = 0;
  uint64_t stuck_until = 0;      ///< a sync takes seconds
  uint64_t unreadable_until = 0; ///< by a process that begins
  bool full = false;             ///< from here on; the file counts as broken

  void add(std::vector<JournalEvent> batch);
  uint64_t newest_epoch() const { return newest_epoch_; }

private:
  uint64_t newest_epoch_ = 0;
};

/// Stands in for JournalWriter: what was appended while the disk was busy goes
/// in one transaction; a full disk breaks the journal, and the run goes on.
class SimulatedJournal : public JournalSink {
public:
  SimulatedJournal(uint32_t process, JournalDisk& disk)
    : process_(process), disk_(disk) {}

  void append(JournalEvent event, std::function<void()> synced) override;
  /// Its process has died: what is being written is there, or it is not.
  void crash();

private:
  void write();

  uint32_t process_;
  JournalDisk& disk_;
  std::vector<JournalEvent> waiting_;
  std::vector<std::function<void()>> then_;
  std::vector<JournalEvent> batch_; ///< that is being written
  bool busy_ = false;
  std::shared_ptr<bool> lives_ = std::make_shared<bool>(true);
};

} // namespace troupe::sim
