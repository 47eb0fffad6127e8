#include "actors/certificates/revocations.hpp"

#include "kernels/base/error.hpp"
#include "kernels/files/atomic_file.hpp"
#include "kernels/files/input_file.hpp"

#include <algorithm>
#include <filesystem>
#include <span>
#include <sstream>

namespace troupe {
namespace {

constexpr uint64_t longest_list = uint64_t{1} << 24;

/// When it was issued: issue() dates certificates an hour back.
int64_t issued(const Period& period) {
  return period.from + 3600;
}

} // namespace

void Revocations::keep_in(std::string path) {
  const std::lock_guard guard{mutex_};
  path_ = std::move(path);
  std::error_code failure;
  if (path_.empty() || !std::filesystem::exists(path_, failure))
    return;
  std::istringstream file;
  try {
    file.str(whole_file(path_, longest_list, "a list of certificates"));
  } catch (const InputError& mistake) {
    throw InputError(std::string{"certificates: "} + mistake.what());
  }
  std::string text;
  int64_t until = 0;
  while (file >> text >> until) {
    const auto name = parse_member_name(text);
    if (!name)
      break;
    until_[*name] = std::max(until_[*name], until);
  }
  if (!file.eof())
    throw InputError("certificates: " + path_
                     + ": is no list of revoked members; put back what it was");
}

bool Revocations::revoke(const MemberName& name, int64_t until) {
  const std::lock_guard guard{mutex_};
  const auto [known, added] = until_.try_emplace(name, until);
  if (!added && known->second >= until)
    return false;
  known->second = until;
  if (path_.empty())
    return true;
  std::string text;
  for (const auto& [who, when] : until_)
    text += to_string(who) + ' ' + std::to_string(when) + '\n';
  write_atomically(path_, {std::as_bytes(std::span{text})});
  return true;
}

std::map<MemberName, int64_t> Revocations::all() const {
  const std::lock_guard guard{mutex_};
  return until_;
}

bool Revocations::is_revoked(const MemberName& name,
                             const Period& period) const {
  const std::lock_guard guard{mutex_};
  const auto found = until_.find(name);
  return found != until_.end() && issued(period) <= found->second;
}

} // namespace troupe
