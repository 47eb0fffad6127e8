#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace troupe {

/// The folders that a run is about to make. Those that are empty at its end go
/// again, unless it says that they stay: a run that is refused leaves none.
class MadeFolders {
public:
  /// Finds out which of these, and of the folders above them, are not there.
  /// Names that are empty are none.
  explicit MadeFolders(const std::vector<std::string>& named);
  /// Removes of them what is there and empty, but for what another process
  /// has locked.
  ~MadeFolders();
  MadeFolders(const MadeFolders&) = delete;
  MadeFolders& operator=(const MadeFolders&) = delete;

  void keep() { absent_.clear(); }

private:
  std::vector<std::filesystem::path> absent_; ///< what is within comes first
};

} // namespace troupe
