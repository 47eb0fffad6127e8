#pragma once

#include "actors/journal/journal_file.hpp"
#include "kernels/files/full_disk.hpp"

#include <functional>
#include <memory>
#include <string>

namespace troupe {

/// Writes a journal from a thread of its own: what was appended while the disk
/// was busy goes in one transaction. What it cannot write it keeps, and tries
/// again: the run goes on meanwhile.
class JournalWriter : public JournalSink {
public:
  /// `said` is called, on the writer's thread, when the file cannot be written:
  /// then it is renamed to FILE.broken, so that nobody takes it for whole; and
  /// when it has its name again, with all that was kept. Past 100,000 events it
  /// is given up. One that was removed is written anew. Every now and then it
  /// is folded (folding.hpp). `disk` may be full on purpose.
  JournalWriter(JournalFile file, std::string path,
                std::function<void(const std::string& line)> said,
                std::shared_ptr<FullDisk> disk = nullptr);
  /// Writes what is left first.
  ~JournalWriter() override;
  JournalWriter(const JournalWriter&) = delete;
  JournalWriter& operator=(const JournalWriter&) = delete;

  void append(JournalEvent event, std::function<void()> synced) override;

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace troupe
