#pragma once

#include "kernels/checkpoint/manifest.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace troupe {

/// A checkpoint that is open: it can be read even after it was removed.
class CheckpointReader {
public:
  /// Reads the manifest and opens the files that it names.
  /// Errors: InputError (a file is missing, shorter or longer than it was; the
  /// manifest is damaged); FileError where one cannot be read.
  explicit CheckpointReader(std::string folder);
  ~CheckpointReader();
  CheckpointReader(const CheckpointReader&) = delete;
  CheckpointReader& operator=(const CheckpointReader&) = delete;

  const std::string& folder() const { return folder_; }
  const CheckpointManifest& manifest() const { return manifest_; }

  /// Fills `out` with a tensor's bytes from `first` on. From any thread.
  /// Errors: FileError with the system's reason.
  void read(const CheckpointTensor& tensor, uint64_t first,
            std::span<std::byte> out) const;
  /// The same of a tensor by its name.
  /// Errors: also InputError where there is none, or it is not float32.
  void read(const std::string& tensor, uint64_t first_element,
            std::span<float> out) const;

  /// Reads everything and compares digests; returns a line for each tensor, or
  /// header of a file, that is not what was written.
  /// Errors: FileError where something cannot be read.
  std::vector<std::string> damages() const;

private:
  void read_at(const std::string& file, uint64_t offset,
               std::span<std::byte> out) const;
  uint32_t digest(const std::string& file, uint64_t offset,
                  uint64_t bytes) const;

  std::string folder_;
  CheckpointManifest manifest_;
  std::map<std::string, int> handles_; ///< by file
};

/// A folder that is called as a checkpoint is; what is in it was not looked at.
struct FoundCheckpoint {
  uint64_t step = 0;
  uint32_t turn = 0; ///< of several of one step
  std::string folder;
};

/// The checkpoints of a folder, newest first; none where there is no folder.
/// Errors: FileError where it cannot be read.
std::vector<FoundCheckpoint> find_checkpoints(const std::string& dir);

/// A checkpoint that is not what was written.
struct DamagedCheckpoint {
  std::string folder;
  std::string why; ///< one line
};

/// The newest checkpoint whose every byte is what was written; null where there
/// is none. Adds each newer one that is not to `damaged`.
/// Errors: FileError where `dir`, or something in one of them, cannot be read:
/// it may be whole.
std::unique_ptr<CheckpointReader>
open_newest(const std::string& dir, std::vector<DamagedCheckpoint>& damaged);

} // namespace troupe
