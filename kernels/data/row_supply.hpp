#pragma once

#include "kernels/data/dataset.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace troupe {

/// Samples that somebody else reads and decodes, for a process that has not got
/// them. Thread-safe; calls may wait.
class RowSupply {
public:
  virtual ~RowSupply() = default;
  /// Writes samples into the first `count` rows of a batch, with the bits of
  /// Dataset::gather() where they are read. Blocks until they are here.
  /// Errors: InputError with one line where they do not come in time, and after
  /// end(); PassAbandoned while it is paused.
  virtual void gather(const uint64_t* rows, uint32_t count, BatchMemory& out,
                      const DataPass& pass) const = 0;
  /// Says that the same call of gather() follows soon; does not wait.
  virtual void expect(const uint64_t* rows, uint32_t count,
                      const DataPass& pass) const = 0;
  /// Whoever waits gives up, and so does who begins to, until that is over: the
  /// pass is not wanted any more. What is here can be gathered.
  virtual void pause(bool on) const = 0;
  /// Whoever waits gives up, now and from here on.
  virtual void end() const = 0;
};

/// A data set of which nothing is here: `samples` of that shape, by way of
/// `supply`.
Dataset supplied_samples(const SampleShape& shape, uint64_t samples,
                         std::shared_ptr<const RowSupply> supply);

/// Words of a sample's number, of a set of so many: one, or two where 32 bits
/// do not tell all of them apart.
constexpr size_t sample_words(uint64_t all) {
  return all > uint64_t{1} << 32 ? 2 : 1;
}
/// Numbers of samples as words of 4 bytes.
std::vector<float> pack_samples(const std::vector<uint64_t>& samples,
                                uint64_t all);
std::vector<uint64_t> unpack_samples(std::span<const float> words,
                                     uint64_t all);

/// Rows of a batch in one piece: all features, then all ids, then all labels or
/// targets, of `count` samples, bit by bit.
/// Shapes: words [packed_words(graph, count)] of 4 bytes.
size_t packed_words(const Graph& graph, uint32_t count);
/// Puts the first `some` rows of a batch there as rows from `first` on.
void pack_rows(const Graph& graph, BatchMemory& batch, uint32_t first,
               uint32_t some, uint32_t count, float* words);
/// Writes all of them into the first rows of a batch.
void unpack_rows(const Graph& graph, const float* words, uint32_t count,
                 BatchMemory& batch);

} // namespace troupe
