#pragma once

#include "actors/certificates/credentials.hpp"

#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <utility>

namespace troupe::test {

struct Folder {
  Folder() {
    std::string name = "/tmp/troupe-links-XXXXXX";
    path = ::mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string path;
};

inline MemberName worker(uint32_t index) {
  return {MemberName::Kind::worker, index};
}

/// A member's certificates of one job for all tests, or of another.
inline const Credentials& job(const char* name = "own",
                              const MemberName& member = worker(0)) {
  static Folder folder;
  static std::map<std::pair<std::string, MemberName>, Credentials> made;
  auto [found, added] = made.try_emplace({name, member});
  if (added)
    found->second = make_credentials(folder.path + '/' + name, member);
  return found->second;
}

} // namespace troupe::test
