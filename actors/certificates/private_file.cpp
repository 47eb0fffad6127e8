#include "actors/certificates/private_file.hpp"

#include "actors/sockets/descriptor.hpp"
#include "kernels/base/error.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace troupe {
namespace {

/// Of a chain of certificates there is room for dozens.
constexpr off_t longest_file = off_t{1} << 20;

std::string octal(mode_t mode) {
  char text[8];
  std::snprintf(text, sizeof text, "%04o", mode & 07777);
  return text;
}

} // namespace

void refuse_certificate(const std::string& path, const std::string& why) {
  throw InputError("certificates: " + path + ": " + why);
}

void check_private(const std::string& path, const struct stat& about,
                   mode_t others) {
  if (about.st_uid != ::geteuid() && about.st_uid != 0)
    refuse_certificate(
      path, "belongs to another user (number " + std::to_string(about.st_uid)
              + "); copy it as your own, or let its owner start the role");
  if ((about.st_mode & others) != 0)
    refuse_certificate(
      path, std::string{"others may "} + (others == 077 ? "read" : "write to")
              + " it (mode " + octal(about.st_mode) + "): chmod "
              + (others == 077 ? "600 " : "go-w ") + path
              + ", or make new ones if somebody may have");
}

std::string read_private(const std::string& path, bool secret) {
  const Descriptor file{
    ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (!file)
    refuse_certificate(path,
                       "cannot be read (" + std::string{std::strerror(errno)}
                         + "); copy the folder that the coordinator made");
  struct stat about {};
  if (::fstat(file.get(), &about) != 0 || !S_ISREG(about.st_mode)
      || about.st_size > longest_file)
    refuse_certificate(path,
                       "is no file of certificates; copy the folder that the "
                       "coordinator made");
  check_private(path, about, secret ? 077 : 022);
  std::string text(static_cast<size_t>(about.st_size), '\0');
  if (::pread(file.get(), text.data(), text.size(), 0) != about.st_size)
    refuse_certificate(path, "cannot be read; try again");
  return text;
}

void write_private(const std::string& path, const std::string& text) {
  const auto early = path + ".new-" + std::to_string(::getpid());
  ::unlink(early.c_str());
  Descriptor file{::open(
    early.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600)};
  const bool whole = file
                     && ::write(file.get(), text.data(), text.size())
                          == static_cast<ssize_t>(text.size())
                     && ::fsync(file.get()) == 0
                     && ::rename(early.c_str(), path.c_str()) == 0;
  if (whole)
    return;
  const int code = errno;
  ::unlink(early.c_str());
  errno = code;
  refuse_certificate(path, "cannot be written ("
                             + std::string{std::strerror(errno)} + ")");
}

} // namespace troupe
