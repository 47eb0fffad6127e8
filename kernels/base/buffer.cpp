#include "kernels/base/buffer.hpp"

#include <algorithm>
#include <cstdint>
#include <new>

namespace troupe {

namespace {

constexpr auto alignment = std::align_val_t{64};

} // namespace

Buffer::Buffer(size_t count) : count_(count) {
  if (count > SIZE_MAX / sizeof(float))
    throw std::bad_array_new_length();
  data_.reset(
    static_cast<float*>(::operator new(count * sizeof(float), alignment)));
}

void Buffer::fill(float value) {
  std::fill_n(data_.get(), count_, value);
}

void Buffer::Release::operator()(float* values) const {
  ::operator delete(values, alignment);
}

} // namespace troupe
