#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace troupe {

/// A fixed run of float32 values, aligned to 64 bytes, not initialised.
class Buffer {
public:
  Buffer() = default;
  explicit Buffer(size_t count);

  float* data() { return data_.get(); }
  const float* data() const { return data_.get(); }
  size_t size() const { return count_; } ///< elements
  std::span<float> span() { return {data_.get(), count_}; }
  std::span<const float> span() const { return {data_.get(), count_}; }
  void fill(float value);

private:
  struct Release {
    void operator()(float* values) const;
  };
  std::unique_ptr<float[], Release> data_;
  size_t count_ = 0;
};

} // namespace troupe
