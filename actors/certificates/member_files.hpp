#pragma once

#include "actors/certificates/credentials.hpp"
#include "actors/sockets/descriptor.hpp"

#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace troupe {

/// Hands each member that a launcher starts its own certificate and key, in
/// memory of the launcher: other processes of this user read it below /proc
/// while the launcher lives, and nothing is left when it is killed. Where that
/// cannot be read, in a file of a folder. Thread-safe.
class MemberFiles {
public:
  /// `authority` has the authority's key; `folder` is there.
  MemberFiles(Credentials authority, std::string folder);

  /// Where the member finds its own, good for at least half their time: the
  /// same as before for one that was asked for. The coordinator gets the
  /// authority's key with it.
  /// Errors: InputError where they cannot be written anywhere.
  std::string path(const MemberName& name);
  /// Makes those anew whose time is half over.
  void refresh();

  /// Those that the member was given until then hold no longer: the next that
  /// it is given are new ones.
  void revoked(const MemberName& name, int64_t until);

private:
  struct File {
    Descriptor memory;
    std::string path;
    int64_t made = 0;    ///< Unix time
    int64_t revoked = 0; ///< those of until then; Unix time
  };

  void write(const MemberName& name, File& file);

  std::mutex mutex_;
  Credentials authority_;
  std::string folder_;
  std::map<MemberName, File> files_;
};

} // namespace troupe
