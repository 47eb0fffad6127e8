#include "kernels/cpu/vector_loops.hpp"

#include "kernels/cpu/loop_table.hpp"

namespace troupe {

void add(const float* a, const float* b, float* out, size_t count) {
  kernels::loops().add(a, b, out, count);
}

bool all_finite(const float* values, size_t count) {
  return kernels::loops().all_finite(values, count);
}

} // namespace troupe
