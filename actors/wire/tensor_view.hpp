#pragma once

#include "actors/wire/caf.hpp"

#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

namespace troupe {

/// A shared, immutable run of float32 values: what messages carry instead of
/// tensors. Inside a process a copy shares the memory; between processes the
/// raw bytes travel, so every bit arrives (CAF would re-encode each float).
/// Bounds: at most max_bytes; a longer one is refused on both sides.
class TensorView {
public:
  static constexpr size_t max_bytes = size_t{4} << 20;

  TensorView() = default;
  /// Shares ownership of `owner`; `values` must stay valid and unchanged as
  /// long as anybody may read the view.
  TensorView(std::shared_ptr<const void> owner, const float* values,
             size_t count)
    : values_(std::move(owner), values), count_(count) {}

  const float* data() const { return values_.get(); }
  size_t size() const { return count_; }
  size_t bytes() const { return count_ * sizeof(float); }
  std::span<const float> span() const { return {data(), count_}; }

  /// A part of this view; shares its owner.
  TensorView part(size_t offset, size_t count) const {
    return {values_, values_.get() + offset, count};
  }
  /// A view of a copy of `values`.
  static TensorView copy(std::span<const float> values);

private:
  std::shared_ptr<const float> values_;
  size_t count_ = 0;
};

template <class Inspector>
bool inspect(Inspector& f, TensorView& x) {
  static_assert(std::endian::native == std::endian::little);
  uint32_t bytes = static_cast<uint32_t>(x.size() * sizeof(float));
  if constexpr (std::is_same_v<Inspector, caf::binary_serializer>) {
    auto raw = caf::make_span(reinterpret_cast<const caf::byte*>(x.data()),
                              bytes);
    return x.size() * sizeof(float) <= TensorView::max_bytes && f.value(bytes)
           && f.value(raw);
  } else if constexpr (std::is_same_v<Inspector, caf::binary_deserializer>) {
    if (!f.value(bytes))
      return false;
    if (bytes > TensorView::max_bytes || bytes % sizeof(float) != 0
        || bytes > f.remaining()) {
      f.emplace_error(caf::sec::invalid_argument, "tensor length");
      return false;
    }
    auto values =
      std::make_shared_for_overwrite<float[]>(bytes / sizeof(float));
    auto raw = caf::span<caf::byte>(reinterpret_cast<caf::byte*>(values.get()),
                                    bytes);
    if (!f.value(raw))
      return false;
    const auto* first = values.get();
    x = TensorView{std::move(values), first, bytes / sizeof(float)};
    return true;
  } else {
    // Printing shows the size; no other serializer carries tensors.
    if constexpr (Inspector::is_loading) {
      f.emplace_error(caf::sec::unsupported_operation, "tensor");
      return false;
    } else {
      return f.object(x).fields(f.field("bytes", bytes));
    }
  }
}

} // namespace troupe
