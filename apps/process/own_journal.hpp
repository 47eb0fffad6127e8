#pragma once

#include "actors/sockets/descriptor.hpp"

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
  /// By which others are kept out; empty: there is none.
  const std::string& lock_path() const { return lock_path_; }
  /// The run is over: nothing of it stays.
  void remove();

private:
  void remove_files() const;

  std::string path_;
  std::string lock_path_;
  std::string why_;
  Descriptor lock_;
};

} // namespace troupe
