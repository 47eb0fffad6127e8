#pragma once

#include "actors/shard/shard_store.hpp"
#include "actors/wire/messages.hpp"

#include <optional>
#include <vector>

namespace troupe {

/// A slice at one version, on its way from one replica to another.
struct SliceImage {
  uint64_t version = 0;
  /// Values, then each slot of state: float [count of the slice] each. For a
  /// part of a sparse table: first the ids of deleted rows, then added or
  /// changed rows, in chunks. They are changes to an empty table or, in the
  /// second of two images, to the table of the version before.
  std::vector<TensorView> tensors;
  LeaseSet leases;
};

/// Copies what the store has of a slice: the newest version, and where `both`
/// the older one that is still whole, which comes first.
std::vector<SliceImage> images_of(const Job& job, const ShardStore& store,
                                  uint32_t slice, bool both);

/// Puts images of consecutive versions in place of what the store has. Their
/// tensors have the shapes above, as ImageAssembly sees to for dense slices;
/// rows that cannot be read are a bug and assert.
void put_images(const Job& job, ShardStore& store, uint32_t slice,
                const std::vector<SliceImage>& images);

/// The messages that carry an image; none is longer than a slice may be.
std::vector<SliceCopy> to_parts(const SliceImage& image, uint32_t slice,
                                bool more);

/// Gathers images from their parts, each of a later version than the one
/// before. Parts are copied: those of a table are more than a window of a link
/// has room for.
class ImageAssembly {
public:
  ImageAssembly(const Job& job, uint32_t slice) : job_(job), slice_(slice) {}

  /// Returns an image with its last part. A part that does not follow the one
  /// before is ignored, so that those of an image may come again, also while a
  /// later one is gathered.
  std::optional<SliceImage> take(const SliceCopy& copy);

private:
  const Job& job_;
  uint32_t slice_;
  std::optional<SliceImage> image_; ///< that is not whole
  uint64_t min_version_ = 0;        ///< version that may begin
};

} // namespace troupe
