#pragma once

#include "actors/messages.hpp"
#include "actors/shard_store.hpp"

#include <optional>
#include <vector>

namespace troupe {

/// A slice at one version, on its way from one replica to another.
struct SliceImage {
  uint64_t version = 0;
  std::vector<TensorView> tensors; ///< values, then each slot of state
  LeaseSet leases;
};

/// Copies what the store has of a slice at `version`.
SliceImage image_of(const Job& job, const ShardStore& store, uint32_t slice,
                    uint64_t version);

/// Puts images of consecutive versions in place of what the store has.
void put_images(const Job& job, ShardStore& store, uint32_t slice,
                const std::vector<SliceImage>& images);

/// The messages that carry an image; none is longer than a slice may be.
std::vector<SliceCopy> to_parts(const SliceImage& image, uint32_t slice,
                                bool more);

/// Gathers an image from its parts.
class ImageAssembly {
public:
  ImageAssembly(const Job& job, uint32_t slice) : job_(job), slice_(slice) {}

  /// Returns the image with its last part. A part that does not follow the one
  /// before is ignored; the first begins anew.
  std::optional<SliceImage> take(const SliceCopy& copy);

private:
  const Job& job_;
  uint32_t slice_;
  SliceImage image_;
};

} // namespace troupe
