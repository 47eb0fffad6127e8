#pragma once

#include "kernels/files/folder_lock.hpp"

#include <sys/types.h>

#include <map>
#include <memory>
#include <string>

namespace troupe {

/// A private folder that goes with the run.
class RunFolder {
public:
  enum class Place {
    temporary, ///< TMPDIR, which a cleaner may empty
    state, ///< XDG_STATE_HOME/troupe or ~/.local/state/troupe; else as above
  };

  /// Removes what runs that were killed have left there, too.
  /// Errors: InputError where none can be made, or no file in it.
  explicit RunFolder(Place place = Place::temporary);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

  /// Remembers the files that are in it now.
  void remember();
  /// Writes those again that are gone. From any thread.
  void restore() const;

private:
  struct Kept {
    std::string contents;
    mode_t mode = 0;
  };

  std::string path_;
  std::unique_ptr<FolderLock> lock_; ///< tells a cleaner that it is in use
  std::map<std::string, Kept> kept_; ///< by path
};

} // namespace troupe
