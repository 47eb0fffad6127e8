#include "actors/compute/not_finite.hpp"

#include <algorithm>
#include <cmath>

namespace troupe {
namespace {

bool is_finite(const LeafLoss& leaf) {
  return std::isfinite(leaf.loss_sum);
}

} // namespace

bool losses_are_finite(const std::vector<LeafLoss>& leaves) {
  return std::ranges::all_of(leaves, is_finite);
}

std::string not_finite_line(uint64_t step,
                            const std::vector<LeafLoss>& leaves) {
  const auto number = std::to_string(step + 1);
  const auto bad = std::ranges::find_if_not(leaves, is_finite);
  if (bad != leaves.end())
    return "NaN loss at step " + number + " in virtual rank "
           + std::to_string(bad->virtual_rank)
           + ": lower --lr or look at the data";
  return "the gradient of step " + number
         + " is not finite, computed twice: lower --lr or look at the data";
}

} // namespace troupe
