#include "apps/process/program_image.hpp"

#include "kernels/base/error.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace troupe {
namespace {

constexpr const char* own_file = "/proc/self/exe";

} // namespace

ProgramImage::ProgramImage() : descriptor_(open(own_file, O_PATH | O_CLOEXEC)) {
  if (descriptor_ < 0)
    throw InputError(std::string{own_file} + " cannot be opened ("
                     + std::strerror(errno)
                     + "): roles are started from it; mount /proc");
  std::error_code ignored;
  path_ = std::filesystem::read_symlink(own_file, ignored).string();
  const std::string gone = " (deleted)";
  if (path_.ends_with(gone))
    path_.resize(path_.size() - gone.size());
  if (path_.empty())
    path_ = "troupe";
}

ProgramImage::~ProgramImage() {
  close(descriptor_);
}

} // namespace troupe
