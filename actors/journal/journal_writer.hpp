#pragma once

#include "actors/journal/journal_file.hpp"

#include <functional>
#include <memory>
#include <string>

namespace troupe {

/// Writes a journal from a thread of its own: what was appended while the disk
/// was busy goes in one transaction.
class JournalWriter : public JournalSink {
public:
  /// `failed` is called once, on the writer's thread, when the file cannot be
  /// written: then it is renamed to FILE.broken, so that nobody takes it for
  /// whole, nothing more is written, and the run goes on without.
  JournalWriter(JournalFile file, std::string path,
                std::function<void(const std::string& line)> failed);
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
