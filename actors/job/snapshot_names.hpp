#pragma once

#include <cstdint>

namespace troupe {

/// The name under which rows of a version are shown that are only what an
/// evaluation reads of it (RowSnapshot::version).
constexpr uint64_t evaluation_name(uint64_t version) {
  return version | uint64_t{1} << 63;
}
constexpr bool is_for_evaluation(uint64_t name) {
  return name >> 63 != 0;
}
constexpr uint64_t version_named(uint64_t name) {
  return name & ~(uint64_t{1} << 63);
}

} // namespace troupe
