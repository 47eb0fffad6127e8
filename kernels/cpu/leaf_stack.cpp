#include "kernels/cpu/leaf_stack.hpp"

#include "kernels/cpu/reserve.hpp"
#include "kernels/cpu/vector_loops.hpp"

namespace troupe::kernels {

float* LeafStack::push() {
  if (height_ > spare_.size())
    spare_.emplace_back();
  if (height_ > 0)
    reserve(spare_[height_ - 1], count_);
  return at(height_++);
}

void LeafStack::merge(uint32_t times) {
  for (uint32_t i = 0; i < times; ++i) {
    --height_;
    add(at(height_ - 1), at(height_), at(height_ - 1), count_);
  }
}

} // namespace troupe::kernels
