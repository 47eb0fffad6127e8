#include "actors/compute/push_packing.hpp"

#include <utility>

namespace troupe {
namespace {

size_t floats_of(size_t bytes) {
  return (bytes + sizeof(float) - 1) / sizeof(float);
}

} // namespace

PushPacking::PushPacking(const Job& job)
  : job_(job),
    compressor_(make_compressor(parse_compression(job.options.compress))) {}

size_t PushPacking::size(const Slice& slice) const {
  return none() || slice.sparse() ? slice.count
                                  : floats_of(compressor_->bytes(slice.count));
}

void PushPacking::pack(StepGradient& gradient, Executor& executor) {
  if (none())
    return;
  residual_.resize(job_.layout.total);
  const auto& slices = job_.plan.slices;
  for (auto& node : gradient.nodes) {
    if (!node.sum)
      continue;
    std::vector<size_t> at{0};
    for (const auto& slice : slices)
      at.push_back(at.back() + (slice.sparse() ? 0 : size(slice)));
    auto bytes = std::make_shared<std::vector<float>>(at.back());
    auto packed = std::make_shared<std::vector<TensorView>>(slices.size());
    executor.parallel_for(slices.size(), [&](size_t i, uint32_t) {
      if (slices[i].sparse())
        return;
      const auto offset = job_.flat_offset(slices[i]);
      auto* out = bytes->data() + at[i];
      compressor_->compress(node.sum->data() + offset,
                            residual_.data() + offset, slices[i].count,
                            reinterpret_cast<std::byte*>(out));
      (*packed)[i] = {bytes, out, at[i + 1] - at[i]};
    });
    node.packed = std::move(packed);
  }
}

TensorView PushPacking::unpack(const Slice& slice,
                               const TensorView& packed) const {
  if (none() || slice.sparse() || packed.size() == 0)
    return packed;
  auto values = std::make_shared<std::vector<float>>(slice.count);
  const std::span bytes{reinterpret_cast<const std::byte*>(packed.data()),
                        compressor_->bytes(slice.count)};
  compressor_->decompress(bytes, slice.count, values->data());
  const auto* first = values->data();
  return {std::move(values), first, slice.count};
}

} // namespace troupe
