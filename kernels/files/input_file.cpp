#include "kernels/files/input_file.hpp"

#include "kernels/files/file_error.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace troupe {

InputFile::InputFile(const std::string& path) : path_(path) {
  // Not blocking, so that a FIFO is refused below rather than waited for.
  handle_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (handle_ < 0) {
    const int code = errno;
    throw FileError(path + ": cannot be opened (" + reason_of(code)
                      + "); check the path and its permissions",
                    code);
  }
  struct stat about;
  if (::fstat(handle_, &about) != 0) {
    const int code = errno;
    ::close(handle_);
    fail_to_read(code);
  }
  if (!S_ISREG(about.st_mode)) {
    ::close(handle_);
    throw InputError(path + ": is not a regular file; name a file");
  }
  size_ = static_cast<uint64_t>(about.st_size);
  written_ns_ = int64_t{about.st_mtim.tv_sec} * 1'000'000'000
                + about.st_mtim.tv_nsec;
}

InputFile::~InputFile() {
  ::close(handle_);
}

void InputFile::fail_to_read(int code) const {
  throw FileError(
    path_ + ": cannot be read (" + reason_of(code) + "); check the disk", code);
}

size_t InputFile::read(std::span<std::byte> out) {
  constexpr size_t max_per_call = size_t{1} << 30;
  size_t done = 0;
  while (done < out.size()) {
    const auto got = ::read(handle_, out.data() + done,
                            std::min(out.size() - done, max_per_call));
    if (got == 0)
      break;
    if (got > 0)
      done += static_cast<size_t>(got);
    else if (const int code = errno; code != EINTR)
      fail_to_read(code);
  }
  return done;
}

size_t InputFile::read_at(uint64_t offset, std::span<std::byte> out) const {
  constexpr size_t max_per_call = size_t{1} << 30;
  size_t done = 0;
  while (done < out.size()) {
    const auto got = ::pread(handle_, out.data() + done,
                             std::min(out.size() - done, max_per_call),
                             static_cast<off_t>(offset + done));
    if (got == 0)
      break;
    if (got > 0)
      done += static_cast<size_t>(got);
    else if (const int code = errno; code != EINTR)
      fail_to_read(code);
  }
  return done;
}

void InputFile::read_all(std::span<std::byte> out) {
  if (read(out) != out.size())
    throw InputError(path_ + ": became shorter while it was read; let its "
                     + "writer finish, then try again");
}

std::shared_ptr<const std::byte> InputFile::map() const {
  const auto length = static_cast<size_t>(size_);
  void* memory = ::mmap(nullptr, length, PROT_READ, MAP_PRIVATE, handle_, 0);
  if (memory == MAP_FAILED)
    throw InputError(path_ + ": cannot be mapped (" + reason_of(errno)
                     + "); check that it is not empty, and the memory");
  return {static_cast<const std::byte*>(memory),
          [length](const std::byte* first) {
            ::munmap(const_cast<std::byte*>(first), length);
          }};
}

std::string whole_file(const std::string& path, uint64_t most,
                       const std::string& what) {
  InputFile file{path};
  if (file.size() > most)
    throw InputError(path + ": " + std::to_string(file.size())
                     + " bytes are too many for " + what);
  std::string text(file.size(), '\0');
  file.read_all(std::as_writable_bytes(std::span{text}));
  return text;
}

} // namespace troupe
