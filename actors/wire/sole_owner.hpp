#pragma once

#include <atomic>
#include <memory>

namespace troupe {

/// Whether nobody else holds what `held` points to. If so, what the others did
/// to it before they let go has happened: its memory may be used again.
template <class T>
bool sole_owner(const std::shared_ptr<T>& held) {
  if (held.use_count() != 1)
    return false;
#ifdef __SANITIZE_THREAD__
  // It does not know fences, but sees libstdc++ count with acquire and release.
  [[maybe_unused]] const auto again = held;
#else
  std::atomic_thread_fence(std::memory_order_acquire);
#endif
  return true;
}

} // namespace troupe
