#pragma once

#include "kernels/checkpoint/manifest.hpp"
#include "kernels/files/file_system.hpp"
#include "kernels/files/folder_lock.hpp"

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace troupe {

/// A tensor to write: `parts` in a row are its values.
struct TensorToWrite {
  std::string name;
  std::string dtype = "F32";
  std::vector<uint64_t> shape;
  std::vector<std::span<const std::byte>> parts;
};

/// A safetensors file of a checkpoint.
struct FileToWrite {
  std::string name; ///< "parameters.safetensors"
  std::vector<TensorToWrite> tensors;
  CheckpointFacts metadata;
};

/// All of a checkpoint: its values stay as they are until it is written.
struct CheckpointToWrite {
  CheckpointManifest manifest; ///< without files and tensors
  std::vector<FileToWrite> files;
};

/// Writes a checkpoint into `dir` and returns its folder. All of it is made,
/// and synced, in a folder that nobody takes for a checkpoint, the manifest
/// last; renaming that folder makes the checkpoint. What is there of the same
/// step stays: the new one gets a number behind its name, and is the newer.
/// Errors: InputError with the system's reason; what was begun is removed
/// where that is possible, and checkpoints of other steps stay.
std::string write_checkpoint(FileSystem& files, const std::string& dir,
                             const CheckpointToWrite& checkpoint);

/// "step-000000001200", and "step-000000001200.1" for the second of that step.
std::string checkpoint_name(uint64_t step, uint32_t turn = 0);

inline constexpr const char* manifest_name = "manifest.json";

/// Removes a checkpoint, or what is left of one. It is none from the first call
/// on, whatever becomes of the others.
/// Errors: returns false where something stays.
bool remove_checkpoint(FileSystem& files, const std::string& folder);

/// Removes what writers and removers that were killed have left in `dir`.
void remove_leftovers(FileSystem& files, const std::string& dir);

/// Renames a damaged checkpoint: then it is none any more, and stays. Returns
/// its new path; empty: that cannot be done.
std::string set_aside(FileSystem& files, const std::string& folder);

/// Keeps a folder of checkpoints from other writers while it lives.
class CheckpointLock {
public:
  /// Makes the folder if there is none.
  /// Errors: InputError (another run writes there: which; it cannot be made).
  explicit CheckpointLock(const std::string& dir);

private:
  FolderLock lock_;
};

} // namespace troupe
