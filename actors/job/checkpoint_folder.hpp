#pragma once

#include "kernels/checkpoint/write_checkpoint.hpp"
#include "strategies/checkpoint_schedule.hpp"

#include <sys/types.h>

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

/// The folder that a run's checkpoints are written into: what was there when
/// the run began, what the run has added, and which go. What came from
/// elsewhere is left alone.
class CheckpointFolder {
public:
  /// `dir`, which this process has locked; empty: there is none. `needed`: the
  /// checkpoint that the run began with, or empty.
  CheckpointFolder(std::string dir, size_t keep, const std::string& needed,
                   FileSystem& files);

  /// Writes one and returns its folder. Where there is no room, an old one goes
  /// for each new one.
  /// Errors: InputError (the system's reason; it is another folder by now).
  std::string write(const CheckpointToWrite& checkpoint);
  /// Removes what is too old. What cannot be removed may be next time.
  void remove_old();

private:
  struct There {
    KeptCheckpoint kept;
    std::string folder;
  };

  void require_same() const;
  std::vector<There> there() const;
  static std::vector<KeptCheckpoint> steps_of(const std::vector<There>& there);
  std::optional<size_t> needed_of(const std::vector<There>& there) const;
  bool make_room();

  std::string dir_;
  size_t keep_;
  std::string needed_; ///< name
  FileSystem& files_;
  std::optional<std::pair<dev_t, ino_t>> place_;
  std::set<std::string> old_; ///< names, at the start
  std::set<std::string> new_; ///< names, of this run's
  size_t old_removed_ = 0;
};

} // namespace troupe
