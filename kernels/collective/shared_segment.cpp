#include "kernels/collective/shared_segment.hpp"

#include "kernels/base/error.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

namespace troupe {

namespace {

constexpr int seals = F_SEAL_SHRINK | F_SEAL_GROW;
/// Sizes are whole huge pages' worth once they are that large.
constexpr size_t huge_page = 2 << 20;
constexpr size_t page = 4096;

[[noreturn]] void refuse(const std::string& what) {
  throw InputError("shared segment: " + what);
}

[[noreturn]] void refuse_with_errno(const std::string& what) {
  const int error = errno;
  refuse(what + ": " + std::strerror(error));
}

size_t rounded(size_t bytes, size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

} // namespace

SharedSegment::SharedSegment(size_t bytes) {
  if (bytes == 0 || bytes > max_bytes)
    refuse(std::to_string(bytes) + " bytes asked for; 1 to "
           + std::to_string(max_bytes) + " are possible");
  bytes_ = rounded(bytes, bytes < huge_page ? page : huge_page);
  try {
    descriptor_ = memfd_create("troupe", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (descriptor_ < 0)
      refuse_with_errno("memfd_create");
    if (ftruncate(descriptor_, static_cast<off_t>(bytes_)) != 0)
      refuse_with_errno("sizing it to " + std::to_string(bytes_) + " bytes");
    if (fcntl(descriptor_, F_ADD_SEALS, seals | F_SEAL_SEAL) != 0)
      refuse_with_errno("sealing");
    map();
  } catch (...) {
    release();
    throw;
  }
}

SharedSegment SharedSegment::adopt(int descriptor) {
  SharedSegment segment;
  segment.descriptor_ = descriptor;
  const int found = fcntl(descriptor, F_GET_SEALS);
  if (found < 0)
    refuse_with_errno("the peer's descriptor is no memfd");
  if ((found & seals) != seals)
    refuse("the peer's memfd is not sealed against shrinking and growing");
  struct stat status = {};
  if (fstat(descriptor, &status) != 0)
    refuse_with_errno("fstat");
  if (status.st_size <= 0 || static_cast<uint64_t>(status.st_size) > max_bytes)
    refuse("the peer's memfd has " + std::to_string(status.st_size)
           + " bytes; 1 to " + std::to_string(max_bytes) + " are possible");
  segment.bytes_ = static_cast<size_t>(status.st_size);
  segment.used_ = segment.bytes_; // what lies where is its maker's affair
  segment.map();
  return segment;
}

SharedSegment::SharedSegment(SharedSegment&& other) noexcept
  : descriptor_(std::exchange(other.descriptor_, -1)),
    data_(std::exchange(other.data_, nullptr)),
    bytes_(std::exchange(other.bytes_, 0)),
    used_(std::exchange(other.used_, 0)) {}

SharedSegment& SharedSegment::operator=(SharedSegment&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(used_, other.used_);
  return *this;
}

SharedSegment::~SharedSegment() {
  release();
}

void SharedSegment::map() {
  void* mapped = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED,
                      descriptor_, 0);
  if (mapped == MAP_FAILED)
    refuse_with_errno("mapping " + std::to_string(bytes_) + " bytes");
  data_ = static_cast<std::byte*>(mapped);
}

void SharedSegment::release() noexcept {
  if (data_ != nullptr)
    munmap(data_, bytes_);
  if (descriptor_ >= 0)
    close(descriptor_);
}

std::byte* SharedSegment::allocate_bytes(size_t bytes) {
  const auto begin = rounded(used_, 128);
  if (begin > bytes_ || bytes > bytes_ - begin)
    refuse(std::to_string(bytes) + " bytes asked for, "
           + std::to_string(bytes_ - used_) + " of " + std::to_string(bytes_)
           + " left; make it larger");
  used_ = begin + bytes;
  return data_ + begin;
}

float* SharedSegment::allocate(size_t count) {
  if (count > max_bytes / sizeof(float))
    refuse(std::to_string(count) + " floats asked for; "
           + std::to_string(max_bytes) + " bytes are the most");
  return reinterpret_cast<float*>(allocate_bytes(count * sizeof(float)));
}

} // namespace troupe
