#include "actors/shard/slice_image.hpp"

#include <algorithm>
#include <cstring>

namespace troupe {
namespace {

/// The floor, then the leases above it, as raw bytes.
TensorView to_bytes(const LeaseSet& leases) {
  std::vector<uint64_t> numbers{leases.floor()};
  numbers.insert(numbers.end(), leases.above().begin(), leases.above().end());
  std::vector<float> raw(2 * numbers.size());
  std::memcpy(raw.data(), numbers.data(), raw.size() * sizeof(float));
  return TensorView::copy(raw);
}

std::optional<LeaseSet> leases_from(const TensorView& raw) {
  if (raw.size() < 2 || raw.size() % 2 != 0)
    return std::nullopt;
  std::vector<uint64_t> numbers(raw.size() / 2);
  std::memcpy(numbers.data(), raw.data(), raw.size() * sizeof(float));
  return LeaseSet{numbers.front(), {numbers.begin() + 1, numbers.end()}};
}

size_t tensors_of(const Job& job) {
  return 1 + state_slots(job.options.rule.kind);
}

} // namespace

SliceImage image_of(const Job& job, const ShardStore& store, uint32_t slice,
                    uint64_t version) {
  const auto count = job.plan.slices[slice].count;
  SliceImage image{version, {}, store.leases(slice)};
  image.tensors.push_back(
    TensorView::copy({store.values(slice, version), count}));
  const auto* state = store.state(slice, version);
  for (size_t i = 0; i + 1 < tensors_of(job); ++i)
    image.tensors.push_back(TensorView::copy({state + i * count, count}));
  return image;
}

void put_images(const Job& job, ShardStore& store, uint32_t slice,
                const std::vector<SliceImage>& images) {
  const auto bytes = job.plan.slices[slice].count * sizeof(float);
  bool first = true;
  for (const auto& image : images) {
    auto target = first ? store.replace(slice, image.version)
                        : store.begin(slice);
    auto* to = target.values; // the state follows the values
    for (const auto& tensor : image.tensors) {
      std::memcpy(to, tensor.data(), bytes);
      to += tensor.size();
    }
    if (first)
      store.install(slice, image.version, image.leases);
    else
      store.commit(slice, image.leases);
    first = false;
  }
}

std::vector<SliceCopy> to_parts(const SliceImage& image, uint32_t slice,
                                bool more) {
  std::vector<SliceCopy> parts;
  for (const auto& tensor : image.tensors)
    parts.push_back({{}, slice, image.version, 0, 0, more, tensor});
  parts.push_back(
    {{}, slice, image.version, 0, 0, more, to_bytes(image.leases)});
  for (uint32_t i = 0; i < parts.size(); ++i) {
    parts[i].part = i;
    parts[i].parts = static_cast<uint32_t>(parts.size());
  }
  return parts;
}

std::optional<SliceImage> ImageAssembly::take(const SliceCopy& copy) {
  const auto tensors = tensors_of(job_);
  if (copy.part == 0)
    image_ = {copy.version, {}, {}};
  if (copy.parts != tensors + 1 || copy.version != image_.version
      || copy.part != image_.tensors.size())
    return std::nullopt;
  if (copy.part < tensors) {
    if (copy.values.size() == job_.plan.slices[slice_].count)
      image_.tensors.push_back(copy.values);
    return std::nullopt;
  }
  auto leases = leases_from(copy.values);
  if (!leases)
    return std::nullopt;
  image_.leases = std::move(*leases);
  return std::exchange(image_, {});
}

} // namespace troupe
