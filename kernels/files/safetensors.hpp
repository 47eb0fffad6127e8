#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace troupe {

/// A named float32 tensor; `values` is row-major.
struct NamedTensor {
  std::string name;
  std::vector<uint64_t> shape;
  std::vector<float> values;
};

/// Writes a safetensors file: temporary file beside it, fsync, rename, fsync
/// of the folder, so that `path` is whole or as before.
/// Errors: InputError with the system's reason.
/// Source: the safetensors format (8-byte header length, JSON, raw data).
void write_safetensors(const std::string& path,
                       const std::vector<NamedTensor>& tensors,
                       const std::map<std::string, std::string>& metadata);

/// A tensor as a file's header describes it.
struct SafetensorsEntry {
  std::string name;
  std::string dtype; ///< "F32", "I64", …
  std::vector<uint64_t> shape;
  uint64_t bytes = 0;
};
/// The beginning of a file whose data are these tensors, in this order.
/// Errors: InputError (a name or metadata that is not UTF-8).
std::string
safetensors_header(const std::vector<SafetensorsEntry>& entries,
                   const std::map<std::string, std::string>& metadata);

struct SafetensorsFile {
  std::vector<NamedTensor> tensors; ///< in order of name
  std::map<std::string, std::string> metadata;
};
/// `path` may be an index of Hugging Face's (a name that ends in .index.json):
/// of files in its folder, which are read as one; metadata of several are left
/// out.
/// Errors: InputError; offsets, sizes and the header's length are checked
/// against the file before anything is allocated; F32 is read, and F16 and
/// BF16, whose numbers float32 has. Of tensors that are not `wanted` (empty:
/// all are) neither type nor values matter: they are left out.
SafetensorsFile read_safetensors(
  const std::string& path,
  const std::function<bool(const std::string& name)>& wanted = {});
/// What shapes its tensors have, by name; no value is read. Errors: as above.
std::map<std::string, std::vector<uint64_t>>
read_safetensors_shapes(const std::string& path);
/// Its metadata alone. Errors: InputError.
std::map<std::string, std::string>
read_safetensors_metadata(const std::string& path);

/// SHA-256 over tensors in order of name as docs/command_line.md defines
/// weights_sha256: name, NUL, dtype name ("float32"), NUL, number of dimensions
/// and dimensions as little-endian uint64, raw little-endian values. Lower-case
/// hex.
std::string tensors_sha256(std::vector<NamedTensor> tensors);
std::string sha256(std::span<const std::byte> bytes);

} // namespace troupe
