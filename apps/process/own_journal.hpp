#pragma once

#include "apps/process/name_lock.hpp"

#include <string>

namespace troupe {

/// The journal of a coordinator that was started by hand without --journal: it
/// lies with the job's certificates and goes with the run, so that the same
/// command goes on with the job of a coordinator that died.
class OwnJournal {
public:
  /// `listen`: HOST:PORT as it was given, by which coordinators that share
  /// certificates are told apart.
  OwnJournal(const std::string& certificates, const std::string& listen);

  /// Empty: none can be kept, and `why` says so.
  const std::string& path() const { return path_; }
  const std::string& why() const { return why_; }
  /// The file by which others are kept out; empty: there is none.
  std::string lock_path() const { return lock_.held() ? lock_.path() : ""; }
  /// The run is over.
  void remove() const;

private:
  std::string path_;
  std::string why_;
  NameLock lock_;
};

} // namespace troupe
