#pragma once

#include "tests/sim/voter_disk.hpp"

#include <string>
#include <utility>
#include <vector>

namespace troupe {

/// A journal on the disk of a simulated voter.
class JournalFile {
public:
  enum class Open { create, resume, read };

  /// Errors: InputError where it is there and cannot be read.
  JournalFile(const std::string& path, Open how)
    : disk_(&sim::VoterDisk::at(path)) {
    if (how == Open::create)
      disk_->create();
    else
      disk_->open();
  }
  JournalFile(JournalFile&& other) noexcept
    : disk_(std::exchange(other.disk_, nullptr)) {}

  std::vector<JournalEvent> events() const { return disk_->events; }
  void append(std::vector<JournalEvent>& events) { disk_->append(events); }
  void fold(uint64_t until, FoldLimits limits) { disk_->fold(until, limits); }
  void replace(const std::vector<JournalEvent>& with) { disk_->replace(with); }
  void cut(uint64_t keep) { disk_->cut(keep); }
  uint64_t promised() const { return disk_->promised; }
  void promise(uint64_t term) { disk_->promise(term); }

private:
  sim::VoterDisk* disk_;
};

inline bool journal_is_at(const std::string& path) {
  return !sim::VoterDisk::at(path).empty();
}

} // namespace troupe
