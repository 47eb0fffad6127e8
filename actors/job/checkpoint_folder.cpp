#include "actors/job/checkpoint_folder.hpp"

#include "kernels/checkpoint/read_checkpoint.hpp"
#include "kernels/files/file_error.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

namespace troupe {
namespace {

std::string name_of(const std::string& folder) {
  return std::filesystem::path{folder}.filename().string();
}

} // namespace

CheckpointFolder::CheckpointFolder(std::string dir, size_t keep,
                                   const std::string& needed, FileSystem& files)
  : dir_(std::move(dir)), keep_(keep), needed_(name_of(needed)), files_(files) {
  struct stat about {};
  if (dir_.empty() || ::stat(dir_.c_str(), &about) != 0)
    return;
  place_ = {about.st_dev, about.st_ino};
  try {
    for (const auto& found : find_checkpoints(dir_))
      old_.insert(name_of(found.folder));
  } catch (const InputError&) { // none of what is there is removed, then
  }
}

/// A disk that was mounted late hides the folder that the run has locked, and
/// may hold other checkpoints.
void CheckpointFolder::require_same() const {
  struct stat about {};
  if (place_ && ::stat(dir_.c_str(), &about) == 0
      && place_ != std::pair{about.st_dev, about.st_ino})
    throw InputError(dir_
                     + ": is another folder than when the run began (was "
                       "something mounted there, or was it replaced?)");
}

std::string CheckpointFolder::write(const CheckpointToWrite& checkpoint) {
  require_same();
  const auto dir = std::filesystem::absolute(dir_).string();
  const auto attempt = [&] {
    auto folder = write_checkpoint(files_, dir, checkpoint);
    new_.insert(name_of(folder));
    return folder;
  };
  try {
    return attempt();
  } catch (const FileError& failure) {
    if (!says_no_room(failure.code()) || !make_room())
      throw;
  }
  return attempt();
}

std::vector<CheckpointFolder::There> CheckpointFolder::there() const {
  std::vector<There> out;
  for (const auto& found : find_checkpoints(dir_)) {
    const auto name = name_of(found.folder);
    if (old_.contains(name) || new_.contains(name))
      out.push_back({{found.step, old_.contains(name)}, found.folder});
  }
  return out;
}

std::vector<KeptCheckpoint>
CheckpointFolder::steps_of(const std::vector<There>& there) {
  std::vector<KeptCheckpoint> out;
  for (const auto& one : there)
    out.push_back(one.kept);
  return out;
}

std::optional<size_t>
CheckpointFolder::needed_of(const std::vector<There>& there) const {
  for (size_t i = 0; i < there.size(); ++i)
    if (name_of(there[i].folder) == needed_)
      return i;
  return std::nullopt;
}

void CheckpointFolder::remove_old() {
  std::vector<There> found;
  try {
    found = there();
  } catch (const InputError&) {
    return;
  }
  for (auto i : checkpoints_to_remove(steps_of(found), keep_, needed_of(found),
                                      old_.size()))
    if (remove_checkpoint(files_, found[i].folder) && found[i].kept.old)
      ++old_removed_;
  old_removed_ = std::min(old_removed_, new_.size()); // some were too many
}

/// Returns whether there may be room now.
bool CheckpointFolder::make_room() {
  const auto found = there();
  const auto oldest =
    checkpoint_that_makes_room(steps_of(found), needed_of(found), old_removed_);
  if (!oldest || !remove_checkpoint(files_, found[*oldest].folder))
    return false;
  if (found[*oldest].kept.old)
    ++old_removed_;
  return true;
}

} // namespace troupe
