#pragma once

#include "actors/journal/event.hpp"
#include "actors/journal/folding.hpp"

#include <memory>
#include <string>
#include <vector>

namespace troupe {

/// A journal on disk: one SQLite file in WAL mode, synced with each change.
/// Each event carries a checksum over itself and the one before it, so that
/// none can be changed, left out or put in unseen. Numbers ascend, with gaps
/// where events were folded.
class JournalFile {
public:
  enum class Open {
    create, ///< a new file, or an empty one whose name was taken for it
    resume, ///< one that is there, to write on
    read,   ///< one that another process may be writing
  };

  /// Errors: InputError with one line: what is wrong with the file, and what to
  /// do (missing, there already, no journal, of another version, damaged).
  JournalFile(const std::string& path, Open how);
  ~JournalFile();
  JournalFile(JournalFile&&) noexcept;
  JournalFile& operator=(JournalFile&&) noexcept;

  /// All events, checked.
  /// Errors: InputError naming the first that is damaged.
  std::vector<JournalEvent> events() const;

  /// Writes all of them or none; fills in their numbers. `full`: meanwhile
  /// SQLite's system calls find no space, on purpose.
  /// Errors: InputError with the system's reason (disk full).
  void append(std::vector<JournalEvent>& events, bool full = false);

  /// Leaves out what nobody needs any more (folding.hpp) of the events up to
  /// this number.
  /// Errors: InputError with the system's reason.
  void fold(uint64_t until = UINT64_MAX, FoldLimits limits = {});
  /// Has these instead, with the numbers that they have.
  /// Errors: InputError with the system's reason.
  void replace(const std::vector<JournalEvent>& events);
  /// Another file with the same events, also of one that was removed while it
  /// is open.
  /// Errors: InputError (it cannot be made; an event is damaged).
  JournalFile copied_to(const std::string& path) const;

  /// Removes all events after number `keep`.
  /// Errors: InputError with the system's reason.
  void cut(uint64_t keep);
  /// The highest term that this file's voter has promised; 0: none.
  uint64_t promised() const;
  /// Errors: InputError with the system's reason.
  void promise(uint64_t term);

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Whether a journal is there; an empty file, or a database with nothing in it,
/// is none yet.
bool journal_is_at(const std::string& path);

} // namespace troupe
