#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace troupe {

/// A regular file opened for reading from its start to its end.
class InputFile {
public:
  /// Errors: InputError (missing, not a regular file, not readable).
  explicit InputFile(const std::string& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const { return path_; }
  /// Bytes it held when it was opened.
  uint64_t size() const { return size_; }
  /// When it was last written, in nanoseconds since 1970, as it was opened.
  int64_t written_ns() const { return written_ns_; }

  /// Fills `out`; returns less than its size only at the end of the file.
  /// Errors: InputError with the system's reason.
  size_t read(std::span<std::byte> out);

  /// Fills `out` with what lies at `offset`, from any thread; returns less than
  /// its size only at the end of the file.
  /// Errors: InputError with the system's reason.
  size_t read_at(uint64_t offset, std::span<std::byte> out) const;

  /// Fills all of `out`.
  /// Errors: InputError, also when the file shrank since it was opened.
  void read_all(std::span<std::byte> out);

  /// Maps the whole file, read-only; the memory outlives this object. Several
  /// processes that map one file share the memory. Who shortens the file
  /// meanwhile ends the processes that read on.
  /// Errors: InputError with the system's reason; also for an empty file.
  std::shared_ptr<const std::byte> map() const;

private:
  [[noreturn]] void fail_to_read(int code) const;

  std::string path_;
  uint64_t size_ = 0;
  int64_t written_ns_ = 0;
  int handle_ = -1;
};

/// All of a regular file of at most `most` bytes.
/// Errors: InputError, as those of InputFile; also a longer one, "are too many
/// for `what`".
std::string whole_file(const std::string& path, uint64_t most,
                       const std::string& what);

} // namespace troupe
