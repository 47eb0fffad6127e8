#pragma once

#include "kernels/files/folder_lock.hpp"

#include <sys/types.h>

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace troupe {

/// A private folder that goes with the run.
class RunFolder {
public:
  enum class Place {
    temporary, ///< TMPDIR, which a cleaner may empty
    state, ///< XDG_STATE_HOME/troupe or ~/.local/state/troupe; else as above
  };
  /// How its name begins, and how many that runs have left stay there, the
  /// newest.
  struct Kind {
    std::string prefix = "run-";
    size_t kept = 0;
  };

  /// Removes what runs of that kind that were killed have left there, too.
  /// Errors: InputError where none can be made, or no file in it.
  explicit RunFolder(Place place = Place::temporary)
    : RunFolder(place, Kind{}) {}
  RunFolder(Place place, const Kind& kind);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

  /// Of flight recorders: those of `of` (a role; empty: a run).
  static Kind recorders(const std::string& of = {});

  /// It stays when the run is over, if something is in it. Returns whether.
  bool keep();

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
  bool stays_ = false;
  std::unique_ptr<FolderLock> lock_; ///< tells a cleaner that it is in use
  std::map<std::string, Kept> kept_; ///< by path
};

/// Makes one for recorders that nobody asked for. Returns its path; empty:
/// there is no place for it.
std::string folder_of_recorders(std::optional<RunFolder>& folder,
                                const std::string& of = {});

} // namespace troupe
