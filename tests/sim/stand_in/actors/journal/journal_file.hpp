#pragma once

#include "tests/sim/voter_disk.hpp"

#include <string>
#include <vector>

namespace troupe {

/// A journal on the disk of a simulated voter.
class JournalFile {
public:
  enum class Open { create, resume, read };

  JournalFile(const std::string& path, Open)
    : disk_(&sim::VoterDisk::at(path)) {}

  std::vector<JournalEvent> events() const { return disk_->events; }
  void append(std::vector<JournalEvent>& events) { disk_->append(events); }
  void cut(uint64_t keep) { disk_->cut(keep); }
  uint64_t promised() const { return disk_->promised; }
  void promise(uint64_t term) { disk_->promise(term); }

private:
  sim::VoterDisk* disk_;
};

inline bool journal_is_at(const std::string&) {
  return false; // each is opened in one way
}

} // namespace troupe
