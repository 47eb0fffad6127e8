#pragma once

#include <cstddef>
#include <memory>

namespace troupe::kernels {

/// Whole pages of the host's memory, pinned for the time of its life: devices
/// reach them without a copy between. At its end no copy is under way.
class PinnedPages {
public:
  /// Those around `memory`, for the current device and all others. Null: the
  /// system refuses it; copies are what they were.
  static std::unique_ptr<PinnedPages> around(void* memory, size_t bytes);
  PinnedPages(const PinnedPages&) = delete;
  PinnedPages& operator=(const PinnedPages&) = delete;
  ~PinnedPages();

private:
  PinnedPages(void* first, int device) : first_(first), device_(device) {}

  void* first_;
  int device_;
};

} // namespace troupe::kernels
