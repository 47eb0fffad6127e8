#include "kernels/files/folder_lock.hpp"

#include "kernels/base/rest_of.hpp"
#include "kernels/files/file_error.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace troupe {
namespace {

/// The process that a line of /proc/locks says has the lock; 0: none of
/// this machine's, or it is not on this file.
///
///   5: FLOCK  ADVISORY  WRITE 4711 08:01:131090 0 EOF
int holder_in(const std::string& line, ino_t inode) {
  std::istringstream words{line};
  std::string number, kind, way, access, place;
  int pid = 0;
  words >> number >> kind >> way >> access >> pid >> place;
  const auto colon = place.rfind(':');
  return kind == "FLOCK" && colon != std::string::npos
             && place.substr(colon + 1) == std::to_string(inode)
           ? std::max(pid, 0)
           : 0;
}

/// The beginning of what a process was started with.
std::string command_of(int pid) {
  constexpr size_t most = 80;
  std::ifstream file{"/proc/" + std::to_string(pid) + "/cmdline"};
  auto text = rest_of(file);
  std::replace_if(
    text.begin(), text.end(),
    [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
  while (text.ends_with(' '))
    text.pop_back();
  return text.size() > most ? text.substr(0, most) + "…" : text;
}

} // namespace

FolderLock::FolderLock(const std::string& dir) {
  std::error_code failure;
  std::filesystem::create_directories(dir, failure);
  handle_ = ::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (handle_ < 0) {
    const int code = failure ? failure.value() : errno;
    throw FileError(dir + ": cannot be used (" + reason_of(code)
                      + "); name a folder that can be written",
                    code);
  }
  held_ = ::flock(handle_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}

FolderLock::~FolderLock() {
  ::close(handle_);
}

std::string lock_holder(int handle) {
  struct stat about {};
  std::ifstream locks{"/proc/locks"};
  std::string line;
  if (::fstat(handle, &about) == 0)
    while (std::getline(locks, line))
      if (const auto pid = holder_in(line, about.st_ino); pid > 0) {
        const auto command = command_of(pid);
        return "process " + std::to_string(pid)
               + (command.empty() ? "" : " (" + command + ")");
      }
  return "another process";
}

} // namespace troupe
