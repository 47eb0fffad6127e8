#include "kernels/sparse_rows.hpp"

#include "kernels/cpu/loop_table.hpp"

#include <algorithm>

namespace troupe::kernels {

SparseRows sum_rows(const int32_t* ids, size_t count, const float* rows,
                    size_t width) {
  std::vector<size_t> order;
  for (size_t i = 0; i < count; ++i)
    if (ids[i] >= 0)
      order.push_back(i);
  std::stable_sort(order.begin(), order.end(),
                   [ids](size_t a, size_t b) { return ids[a] < ids[b]; });
  SparseRows result;
  for (auto i : order)
    if (result.ids.empty() || result.ids.back() != ids[i])
      result.ids.push_back(ids[i]);
  // From zeros, as in the table: 0 + -0 is 0.
  result.rows.assign(result.ids.size() * width, 0.0f);
  size_t at = 0;
  for (auto i : order) {
    if (result.ids[at] != ids[i])
      ++at;
    auto* to = result.rows.data() + at * width;
    loops().add(to, rows + i * width, to, width);
  }
  return result;
}

} // namespace troupe::kernels
