#include "kernels/optimizer/rows.hpp"

#include "kernels/base/require.hpp"
#include "kernels/cpu/vector_loops.hpp"
#include "kernels/optimizer/terms.hpp"

#include <algorithm>
#include <cstring>

namespace troupe {

namespace {

/// Takes the next run of ids that follow one another: their rows lie side by
/// side in the table too. Returns the index after it.
size_t run_end(const std::vector<uint64_t>& ids, size_t begin) {
  auto end = begin + 1;
  while (end < ids.size() && ids[end] == ids[end - 1] + 1)
    ++end;
  return end;
}

void append(SparseRows& to, uint64_t id, const float* row) {
  to.ids.push_back(id);
  to.values.insert(to.values.end(), row, row + to.width);
}

} // namespace

SparseRows sum_equal_ids(std::span<const int32_t> ids, const float* rows,
                         size_t width) {
  std::vector<uint64_t> order; // id, then place: sorts stably
  order.reserve(ids.size());
  for (size_t i = 0; i < ids.size(); ++i)
    if (ids[i] >= 0)
      order.push_back(uint64_t{static_cast<uint32_t>(ids[i])} << 32 | i);
  std::sort(order.begin(), order.end());
  SparseRows result;
  result.width = width;
  result.values.reserve(order.size() * width);
  for (auto entry : order) {
    const auto id = static_cast<uint32_t>(entry >> 32);
    const auto* row = rows + (entry & 0xffffffff) * width;
    if (result.ids.empty() || result.ids.back() != id) {
      append(result, id, row);
      continue;
    }
    auto* sum = result.values.data() + result.values.size() - width;
    add(sum, row, sum, width);
  }
  return result;
}

SparseRows take_rows(std::span<const int32_t> ids, const float* gradient,
                     size_t width) {
  SparseRows result;
  result.width = width;
  for (auto id : ids)
    if (id >= 0)
      result.ids.push_back(static_cast<uint64_t>(id));
  std::sort(result.ids.begin(), result.ids.end());
  result.ids.erase(std::unique(result.ids.begin(), result.ids.end()),
                   result.ids.end());
  result.values.reserve(result.ids.size() * width);
  for (auto id : result.ids) {
    const auto* row = gradient + id * width;
    result.values.insert(result.values.end(), row, row + width);
  }
  return result;
}

SparseRows sum_rows(const SparseRows& left, const SparseRows& right) {
  kernels::require(left.width == right.width, "rows of two tables");
  const auto width = left.width;
  SparseRows result;
  result.width = width;
  result.ids.reserve(left.ids.size() + right.ids.size());
  result.values.reserve(left.values.size() + right.values.size());
  size_t l = 0;
  size_t r = 0;
  while (l < left.ids.size() || r < right.ids.size()) {
    const bool from_left = r == right.ids.size()
                           || (l < left.ids.size()
                               && left.ids[l] <= right.ids[r]);
    const bool from_right = l == left.ids.size()
                            || (r < right.ids.size()
                                && right.ids[r] <= left.ids[l]);
    const auto* b = right.values.data() + r * width;
    if (from_left)
      append(result, left.ids[l], left.values.data() + l * width);
    else
      append(result, right.ids[r], b);
    if (from_left && from_right) {
      auto* sum = result.values.data() + result.values.size() - width;
      add(sum, b, sum, width);
    }
    l += from_left ? 1 : 0;
    r += from_right ? 1 : 0;
  }
  return result;
}

void update_rows(const OptimizerOptions& options, const UpdateArgs& args,
                 const SparseRows& gradient) {
  const auto& [ids, values, width] = gradient;
  if (ids.empty())
    return;
  const auto slots = state_slots(options.kind);
  kernels::require(args.role == ParameterRole::trained,
                   "a statistic has no rows");
  kernels::require(args.out && (slots == 0 || args.state_out),
                   "an update has nowhere to go");
  kernels::require(values.size() == ids.size() * width,
                   "rows of another width");
  auto whole = args;
  whole.gradient_sum = values.data();
  const auto table = kernels::update_terms(options, whole);
  const auto loop = kernels::update_loop(options.kind);
  for (size_t begin = 0; begin < ids.size();) {
    const auto end = run_end(ids, begin);
    kernels::require(begin == 0 || ids[begin] > ids[begin - 1],
                     "ids are not in order");
    const auto at = ids[begin] * width;
    auto terms = table;
    terms.count = (end - begin) * width;
    kernels::require(at + terms.count <= args.count, "an id beyond the table");
    terms.gradient_sum += begin * width;
    terms.in += at;
    terms.out += at;
    for (uint32_t slot = 0; slot < slots; ++slot) {
      terms.state_in[slot] += at;
      terms.state_out[slot] += at;
    }
    loop(terms);
    begin = end;
  }
}

} // namespace troupe
