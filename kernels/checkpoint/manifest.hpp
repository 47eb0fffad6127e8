#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

/// Where a checkpoint's tensor lies, and what its bytes add up to.
struct CheckpointTensor {
  std::string name;
  std::string dtype = "F32"; ///< as safetensors calls it
  std::vector<uint64_t> shape;
  std::string file;
  uint64_t offset = 0; ///< bytes from the file's beginning
  uint64_t bytes = 0;
  uint32_t crc32c = 0;
};

/// A safetensors file of a checkpoint. The header is what lies before `data`.
struct CheckpointFile {
  std::string name;
  uint64_t bytes = 0;
  uint64_t data = 0; ///< bytes of the header
  uint32_t header_crc32c = 0;
};

/// What a run of elements of a variable is the outcome of: how many updates it
/// has had and, asynchronously, which leases are among them (PROTOCOL 11).
struct CheckpointSlice {
  std::string variable;
  uint64_t offset = 0;    ///< elements
  uint64_t count = 0;     ///< elements; 0: a part of a sparse table
  uint64_t partition = 0; ///< which one, of a sparse table
  uint64_t updates = 0;
  uint64_t lease_floor = 0;
  std::vector<uint64_t> leases_above;
  friend bool operator==(const CheckpointSlice&,
                         const CheckpointSlice&) = default;
};

/// The period of consistency that the checkpoint was taken in.
struct CheckpointPeriod {
  bool async = false;
  uint64_t step = 0;
  uint64_t updates = 0;
};

/// Ordered pairs of name and value.
using CheckpointFacts = std::vector<std::pair<std::string, std::string>>;

/// The setting that lists in which numeric classes its steps were computed, in
/// order, with "; " between them.
inline constexpr const char* numeric_classes_setting = "numeric-classes";

/// What a checkpoint says of itself.
struct CheckpointManifest {
  static constexpr uint64_t format = 1;

  uint64_t step =
    0; ///< steps whose outcome it is, counted from the job's first
  bool whole = true;      ///< every slice is the outcome of just those steps
  std::string written_at; ///< UTC, ISO 8601
  std::string version;    ///< of the program
  std::string cause;      ///< "periodic", "end", …
  /// What must be equal for a job to go on from it.
  CheckpointFacts facts;
  /// What may differ, though the bits will.
  CheckpointFacts settings;
  CheckpointPeriod period;
  std::vector<CheckpointSlice> slices;
  std::vector<CheckpointFile> files;
  std::vector<CheckpointTensor> tensors;

  uint64_t bytes() const; ///< of all files but the manifest
  const CheckpointTensor* find(const std::string& tensor) const;
};

/// Errors: always, InputError: the file at `path` is damaged, and how.
[[noreturn]] void refuse_checkpoint(const std::string& path,
                                    const std::string& what);

/// The manifest as JSON, with a digest of itself.
std::string to_json(const CheckpointManifest& manifest);

/// Errors: InputError naming `path` (no JSON, another format, a field that is
/// missing or does not fit, a digest that differs).
CheckpointManifest manifest_from_json(const std::string& text,
                                      const std::string& path);

} // namespace troupe
