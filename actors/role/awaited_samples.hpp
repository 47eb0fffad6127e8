#pragma once

#include "kernels/base/error.hpp"
#include "strategies/role_id.hpp"

#include <mutex>
#include <utility>
#include <vector>

namespace troupe {

/// The samples that others read did not come. They may, another time.
class NoSamplesError : public InputError {
public:
  using InputError::InputError;
};

/// What a worker for which others read says of its waits (MetricsReport): its
/// row fetcher writes it, its reports read it.
class AwaitedSamples {
public:
  struct Wait {
    bool waits = false;          ///< for longer than is usual
    std::vector<RoleId> readers; ///< whom was asked; empty: nobody yet
  };

  void set(Wait wait) {
    std::lock_guard lock{mutex_};
    wait_ = std::move(wait);
  }
  Wait get() const {
    std::lock_guard lock{mutex_};
    return wait_;
  }

private:
  mutable std::mutex mutex_;
  Wait wait_;
};

} // namespace troupe
