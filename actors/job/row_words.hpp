#pragma once

#include "actors/links/link_memory.hpp"
#include "actors/wire/tensor_view.hpp"
#include "kernels/table/row_payload.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

namespace troupe {

/// Values on their way to a peer, written where they can be lent if there is
/// such memory, not initialised.
class OutgoingWords {
public:
  OutgoingWords(size_t count, LinkMemory* memory) : count_(count) {
    if (memory != nullptr)
      words_ = memory->take(count);
    if (!words_) {
      auto own = std::make_shared_for_overwrite<float[]>(count);
      words_ = {own, own.get()};
    }
  }
  float* data() { return words_.get(); }
  std::span<float> span() { return {words_.get(), count_}; }
  TensorView view() && {
    const auto* first = words_.get();
    return {std::move(words_), first, count_};
  }

private:
  std::shared_ptr<float> words_;
  size_t count_;
};

/// A payload of rows whose values are still to be written.
class RowWords {
public:
  /// `ids` as encode_pages() gives them.
  RowWords(std::span<const std::byte> ids, uint64_t rows, size_t width,
           LinkMemory* memory = nullptr, ListName name = {})
    : words_(payload_words(ids.size(), rows, width), memory),
      values_(write_payload(ids, width, words_.span(), name)) {}
  /// Names ids that the receiver knows, instead of holding them.
  RowWords(ListName name, uint64_t rows, size_t width,
           LinkMemory* memory = nullptr)
    : words_(payload_words(0, rows, width), memory),
      values_(write_named(name, width, words_.span())) {}

  float* values() { return values_; }
  TensorView view() && { return std::move(words_).view(); }

private:
  OutgoingWords words_;
  float* values_;
};

/// Copies rows; what is short is not worth a call.
inline void copy_floats(const float* from, float* to, size_t count) {
  if (count <= 16)
    for (size_t i = 0; i < count; ++i)
      to[i] = from[i];
  else
    std::memcpy(to, from, count * sizeof(float));
}

} // namespace troupe
