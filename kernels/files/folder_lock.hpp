#pragma once

#include <string>

namespace troupe {

/// Who has the lock on an open file: "process 4711 (troupe train --data …)", or
/// "another process" where that cannot be found out.
std::string lock_holder(int handle);

/// Keeps a folder from other processes that ask for it in the same way, while
/// it lives. Where a file system knows no locks, nobody is kept out.
class FolderLock {
public:
  /// Opens the folder, which is made if there is none.
  /// Errors: FileError with the system's reason.
  explicit FolderLock(const std::string& dir);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  /// False: another process has it.
  bool held() const { return held_; }
  std::string holder() const { return lock_holder(handle_); }

private:
  int handle_ = -1;
  bool held_ = false;
};

} // namespace troupe
