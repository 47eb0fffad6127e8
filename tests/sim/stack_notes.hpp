#pragma once

#include <cstddef>

#ifdef __SANITIZE_ADDRESS__
#  include <sanitizer/common_interface_defs.h>
#endif

namespace troupe::sim {

/// What the address sanitizer knows of a stack.
struct StackNote {
  const void* bottom = nullptr;
  size_t bytes = 0;
  void* frames = nullptr; ///< locals that it keeps elsewhere
};

/// Tells it that one stack is given up for another, before a switch. `from` is
/// null: for good.
inline void note_switch([[maybe_unused]] StackNote* from,
                        [[maybe_unused]] const StackNote& to) {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(from != nullptr ? &from->frames : nullptr,
                                 to.bottom, to.bytes);
#endif
}

/// Tells it after a switch that `here` runs, and learns where it came from.
inline void note_arrival([[maybe_unused]] const StackNote& here,
                         [[maybe_unused]] StackNote& from) {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(here.frames, &from.bottom, &from.bytes);
#endif
}

} // namespace troupe::sim
