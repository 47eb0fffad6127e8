#pragma once

#include <string>

namespace troupe {

/// Watches SIGINT and SIGTERM on a thread of its own. Construct it before any
/// other thread starts, so that they inherit the blocked mask. A third signal
/// ends the process at once.
class Interrupt {
public:
  Interrupt();

  /// Empty until a signal came; then "interrupted" or "terminated".
  std::string reason() const;
};

} // namespace troupe
