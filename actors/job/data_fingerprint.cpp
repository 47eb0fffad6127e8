#include "actors/job/data_fingerprint.hpp"

#include "kernels/base/crc32c.hpp"

#include <algorithm>
#include <cstdio>
#include <span>
#include <vector>

namespace troupe {
namespace {

constexpr uint64_t few = 64;
constexpr uint64_t all_of_bytes = uint64_t{16} << 20;
/// Samples may be large, and so may be what a role has beside them.
constexpr uint32_t rows_at_once = 8;

class Fingerprint {
public:
  Fingerprint(const Job& job, const Dataset& data, uint32_t rows)
    : graph_(job.graph), data_(data), rows_(rows), memory_(job.graph, rows) {}

  void add(std::span<const uint64_t> samples) {
    for (size_t first = 0; first < samples.size(); first += rows_) {
      const auto some =
        static_cast<uint32_t>(std::min<size_t>(rows_, samples.size() - first));
      data_.gather(samples.data() + first, some, memory_);
      add(memory_.features(), some * graph_.features() * sizeof(float));
      add(memory_.ids(), some * graph_.ids() * sizeof(int32_t));
      add(memory_.labels(), some * graph_.labels() * sizeof(int32_t));
      add(memory_.targets(), some * graph_.labels() * sizeof(float));
    }
  }
  std::string text() const {
    char out[16];
    std::snprintf(out, sizeof out, "%08x", sum_);
    return out;
  }

private:
  void add(const void* values, size_t bytes) {
    if (values != nullptr)
      sum_ = crc32c(sum_, values, bytes);
  }

  const Graph& graph_;
  const Dataset& data_;
  uint32_t rows_;
  BatchMemory memory_;
  uint32_t sum_ = 0;
};

/// Of so many samples at most, spread over all.
std::string fingerprint_of(const Job& job, const Dataset& data, uint64_t most,
                           uint32_t rows) {
  const auto samples = data.samples();
  const auto count = std::min(samples, most);
  Fingerprint out{job, data, rows};
  std::vector<uint64_t> some;
  for (uint64_t first = 0; first < count; first += few) {
    some.clear();
    for (uint64_t i = first; i < std::min(count, first + few); ++i)
      some.push_back(i * samples / count);
    data.expect(some.data(), static_cast<uint32_t>(some.size()));
    out.add(some);
  }
  return out.text();
}

} // namespace

std::string data_fingerprint(const Job& job, const Dataset& data) {
  return fingerprint_of(job, data, few, few);
}

std::string data_contents(const Job& job, const Dataset& data) {
  const auto& graph = job.graph;
  const auto values = graph.features() + graph.ids() + graph.labels();
  const auto held = all_of_bytes / (std::max<uint64_t>(1, values) * 4);
  const auto samples = data.samples();
  return fingerprint_of(job, data, samples <= held ? samples : few,
                        rows_at_once);
}

} // namespace troupe
