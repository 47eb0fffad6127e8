#pragma once

#include <cuda_stand_in.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

namespace cub {

struct DeviceRadixSort {
  /// Sorts by the bits [begin, end) of the keys; equal keys keep their order.
  /// Without memory: says how much it takes.
  template <class Key, class Value>
  static cudaError_t SortPairs(void* memory, size_t& bytes, const Key* keys,
                               Key* sorted_keys, const Value* values,
                               Value* sorted_values, int count, int begin,
                               int end, cudaStream_t stream) {
    const auto needed = 768 + (static_cast<size_t>(count) + 255) / 256 * 4;
    if (memory == nullptr) {
      bytes = needed;
      return cudaSuccess;
    }
    if (bytes < needed)
      return cudaErrorInvalidValue;
    return cuda_stand_in::enqueue(stream, "cub::DeviceRadixSort", [=] {
      const auto size = static_cast<size_t>(count);
      cuda_stand_in::will_read(keys, size * sizeof(Key));
      cuda_stand_in::will_read(values, size * sizeof(Value));
      cuda_stand_in::will_write(memory, needed);
      cuda_stand_in::will_write(sorted_keys, size * sizeof(Key));
      cuda_stand_in::will_write(sorted_values, size * sizeof(Value));
      const auto width = end - begin;
      const auto mask = width >= 32 ? ~uint64_t{0} : (uint64_t{1} << width) - 1;
      std::vector<size_t> order(size);
      std::iota(order.begin(), order.end(), size_t{0});
      std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
        return (uint64_t{keys[a]} >> begin & mask)
               < (uint64_t{keys[b]} >> begin & mask);
      });
      // Its memory holds nothing that anybody may rely on afterwards.
      memset(memory, 0xa5, needed);
      for (size_t i = 0; i < size; ++i) {
        sorted_keys[i] = keys[order[i]];
        sorted_values[i] = values[order[i]];
      }
    });
  }
};

} // namespace cub
