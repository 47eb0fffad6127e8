#pragma once

#include "actors/sockets/descriptor.hpp"

#include <string>

namespace troupe {

/// Keeps others from a file's name, by a lock on FILE.lock beside it, which is
/// removed with this. Not on the file itself: on some network file systems that
/// would keep SQLite from it as well.
class NameLock {
public:
  NameLock() = default;
  /// Errors: FileError where FILE.lock cannot be made.
  explicit NameLock(const std::string& file);
  ~NameLock();
  NameLock(const NameLock&) = delete;
  NameLock& operator=(const NameLock&) = delete;
  NameLock(NameLock&& other) noexcept;
  NameLock& operator=(NameLock&& other) noexcept;

  /// False: somebody else has it.
  bool held() const { return static_cast<bool>(handle_); }
  /// Who had it when this was made: lock_holder().
  const std::string& holder() const { return holder_; }
  const std::string& path() const { return path_; }

private:
  void release();

  std::string path_;
  std::string holder_;
  Descriptor handle_;
};

/// Of a voter's journal.
/// Errors: InputError that says who has it; FileError as of NameLock.
NameLock lock_journal(const std::string& file);

} // namespace troupe
