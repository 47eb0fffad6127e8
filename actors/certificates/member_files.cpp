#include "actors/certificates/member_files.hpp"

#include "kernels/base/error.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace troupe {

MemberFiles::MemberFiles(Credentials authority, std::string folder)
  : authority_(std::move(authority)), folder_(std::move(folder)) {}

std::string MemberFiles::path(const MemberName& name) {
  const std::lock_guard guard{mutex_};
  auto& file = files_[name];
  const auto age = authority_.source.now() - file.made;
  if (file.path.empty() || file.made <= file.revoked
      || 2 * age > authority_.source.valid_seconds)
    write(name, file);
  return file.path;
}

void MemberFiles::revoked(const MemberName& name, int64_t until) {
  const std::lock_guard guard{mutex_};
  if (const auto found = files_.find(name); found != files_.end())
    found->second.revoked = std::max(found->second.revoked, until);
}

void MemberFiles::refresh() {
  const std::lock_guard guard{mutex_};
  for (auto& [name, file] : files_)
    if (2 * (authority_.source.now() - file.made)
        > authority_.source.valid_seconds)
      write(name, file);
}

void MemberFiles::write(const MemberName& name, File& file) {
  auto authority = authority_;
  // It must be told apart from those that were revoked in this second.
  file.made = std::max(authority.source.now(), file.revoked + 1);
  authority.source.clock_offset_s += file.made - authority.source.now();
  auto member = make_member(authority, name);
  if (name == coordinator_name)
    member.authority_key = authority_.authority_key;
  const auto text = to_bundle(member);
  if (file.path.empty()) {
    file.memory =
      Descriptor{::memfd_create(file_stem(name).c_str(), MFD_CLOEXEC)};
    file.path = "/proc/" + std::to_string(::getpid()) + "/fd/"
                + std::to_string(file.memory.get());
    if (!file.memory || ::fchmod(file.memory.get(), 0600) != 0
        || ::access(file.path.c_str(), R_OK) != 0) {
      file.path = folder_ + '/' + file_stem(name) + "-only.pem";
      file.memory = Descriptor{::open(
        file.path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)};
    }
  }
  if (!file.memory
      || ::pwrite(file.memory.get(), text.data(), text.size(), 0)
           != static_cast<ssize_t>(text.size())
      || ::ftruncate(file.memory.get(), static_cast<off_t>(text.size())) != 0) {
    const std::string why = std::strerror(errno);
    throw InputError("certificates: " + file.path + ": cannot be written ("
                     + why + "); set TMPDIR to a place that can");
  }
}

} // namespace troupe
