#pragma once

#include <cstdint>

namespace troupe {

/// What a member does over its streams in one step.
class StreamWork {
public:
  virtual ~StreamWork() = default;

  /// The next bucket's addends are final.
  virtual void ready() = 0;
  /// Moves on what can be moved on without waiting. Tells whether anything did.
  virtual bool pump() = 0;
  virtual bool complete() const = 0;
};

} // namespace troupe
