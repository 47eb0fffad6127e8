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
  /// The run is over.
  void remove();

private:
  std::string path_;
  std::string why_;
  Descriptor lock_;
};

} // namespace troupe
