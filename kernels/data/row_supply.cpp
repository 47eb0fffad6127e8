#include "kernels/data/row_supply.hpp"

#include <cstring>
#include <utility>

namespace troupe {

namespace {

/// Calls part(its rows in the batch, values of one) for each part that a graph
/// takes, in the order in which they are packed.
template <class Part>
void for_parts(const Graph& graph, BatchMemory& batch, const Part& part) {
  if (auto* features = batch.features())
    part(features, graph.features());
  if (auto* ids = batch.ids())
    part(ids, graph.ids());
  if (auto* labels = batch.labels())
    part(labels, graph.labels());
  if (auto* targets = batch.targets())
    part(targets, graph.labels());
}

} // namespace

Dataset supplied_samples(const SampleShape& shape, uint64_t samples,
                         std::shared_ptr<const RowSupply> supply) {
  Dataset data;
  data.shape = shape;
  data.supplied = samples;
  data.supply = std::move(supply);
  return data;
}

std::vector<float> pack_samples(const std::vector<uint64_t>& samples,
                                uint64_t all) {
  const auto each = sample_words(all);
  std::vector<float> words(samples.size() * each);
  for (size_t i = 0; i < samples.size(); ++i)
    // The lower half stands first.
    std::memcpy(words.data() + i * each, &samples[i], each * sizeof(float));
  return words;
}

std::vector<uint64_t> unpack_samples(std::span<const float> words,
                                     uint64_t all) {
  const auto each = sample_words(all);
  std::vector<uint64_t> samples(words.size() / each);
  for (size_t i = 0; i < samples.size(); ++i)
    std::memcpy(&samples[i], words.data() + i * each, each * sizeof(float));
  return samples;
}

size_t packed_words(const Graph& graph, uint32_t count) {
  return count * (graph.features() + graph.ids() + graph.labels());
}

void pack_rows(const Graph& graph, BatchMemory& batch, uint32_t first,
               uint32_t some, uint32_t count, float* words) {
  for_parts(graph, batch, [&](const auto* rows, size_t width) {
    static_assert(sizeof(*rows) == sizeof(float));
    std::memcpy(words + first * width, rows, some * width * sizeof(float));
    words += count * width;
  });
}

void unpack_rows(const Graph& graph, const float* words, uint32_t count,
                 BatchMemory& batch) {
  for_parts(graph, batch, [&](auto* rows, size_t width) {
    static_assert(sizeof(*rows) == sizeof(float));
    std::memcpy(rows, words, count * width * sizeof(float));
    words += count * width;
  });
}

} // namespace troupe
