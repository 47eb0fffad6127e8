#pragma once

#include <string>

namespace troupe {

/// Watches SIGINT and SIGTERM on a thread of its own. Construct it before any
/// other thread starts, so that they inherit the blocked mask. A signal ends
/// the process at once as long as nobody has asked for the reason (data are
/// still being read), and so does a third one.
class Interrupt {
public:
  Interrupt();

  /// Empty until a signal came; then "interrupted" or "terminated".
  std::string reason() const;
};

} // namespace troupe
