#pragma once

#include <cstddef>
#include <span>

namespace troupe {

/// Memory that several processes of a host map: a memfd of fixed size, sealed
/// against shrinking and growing, so that no peer can pull pages from under
/// another. The kernel frees it with the last process that holds it, however
/// that ends. Each process may map it elsewhere.
class SharedSegment {
public:
  static constexpr size_t max_bytes = size_t{1} << 40;

  /// Makes a segment of at least `bytes`, all 0, mapped read and write.
  /// Errors: InputError when the size is 0 or above `max_bytes`, or the
  /// system refuses.
  explicit SharedSegment(size_t bytes);
  /// Maps a descriptor that a peer sent; takes it over, also when it throws.
  /// Errors: InputError unless it is a memfd of 1 to `max_bytes`, sealed
  /// against shrinking and growing.
  static SharedSegment adopt(int descriptor);

  SharedSegment(SharedSegment&& other) noexcept;
  SharedSegment& operator=(SharedSegment&& other) noexcept;
  ~SharedSegment();

  /// To be sent to peers; stays the segment's.
  int descriptor() const { return descriptor_; }
  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  std::span<std::byte> span() const { return {data_, bytes_}; }

  /// Hands out the next `count` floats, 64-byte aligned, 0 unless written; for
  /// the process that made the segment.
  /// Errors: InputError when less is left.
  float* allocate(size_t count);
  /// As allocate, `bytes` aligned to 128, for control memory.
  std::byte* allocate_bytes(size_t bytes);

private:
  SharedSegment() = default;
  void map();
  void release() noexcept;

  int descriptor_ = -1;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
  size_t used_ = 0;
};

} // namespace troupe
