#pragma once

#include "kernels/base/error.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>

// What the targets share. Each has one function, that of libFuzzer:
//   extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size)
// Whatever the input, it returns 0, in memory and time that fit the input; what
// must hold is checked with holds().
namespace troupe::fuzz {

/// Ends the process where `what` does not hold: the fuzzer keeps the input.
inline void holds(bool it_does, const char* what) {
  if (it_does)
    return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

/// An input, taken apart from its beginning; zeros after its end.
class Input {
public:
  Input(const uint8_t* data, size_t size) : left_(data, size) {}

  uint8_t byte() {
    if (left_.empty())
      return 0;
    const auto first = left_.front();
    left_ = left_.subspan(1);
    return first;
  }
  uint64_t number(size_t bytes) {
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; ++i)
      value |= uint64_t{byte()} << (8 * i);
    return value;
  }
  std::span<const uint8_t> take(size_t most) {
    const auto taken = left_.first(std::min(most, left_.size()));
    left_ = left_.subspan(taken.size());
    return taken;
  }
  bool empty() const { return left_.empty(); }
  std::span<const uint8_t> rest() const { return left_; }
  std::string text() const { return {left_.begin(), left_.end()}; }

private:
  std::span<const uint8_t> left_;
};

/// Does what may be refused (main makes one line of it); tells whether it was
/// not.
template <class Work>
bool accepted(Work&& work) {
  try {
    std::forward<Work>(work)();
    return true;
  } catch (const InputError& refusal) {
    holds(*refusal.what() != '\0', "a refusal says why");
    return false;
  }
}

/// A folder of this process, which goes with it; not on a disk where possible.
class Scratch {
public:
  Scratch() {
    std::error_code none;
    const std::filesystem::path memory{"/dev/shm"};
    auto name = (std::filesystem::is_directory(memory, none)
                   ? memory
                   : std::filesystem::temp_directory_path())
                  .string()
                + "/troupe-fuzz-XXXXXX";
    holds(::mkdtemp(name.data()) != nullptr, "there is room for a file");
    folder_ = name;
  }
  ~Scratch() {
    std::error_code none;
    std::filesystem::remove_all(folder_, none);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  const std::string& folder() const { return folder_; }
  /// Writes a file anew; returns its path.
  std::string put(const std::string& name, std::string_view bytes) const {
    const auto path = folder_ + '/' + name;
    auto* file = std::fopen(path.c_str(), "wb");
    holds(file != nullptr, "a file can be made");
    std::fwrite(bytes.data(), 1, bytes.size(), file);
    std::fclose(file);
    return path;
  }
  std::string put(const std::string& name,
                  std::span<const uint8_t> bytes) const {
    return put(name,
               {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }

private:
  std::string folder_;
};

} // namespace troupe::fuzz
