#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace troupe {

/// A model parameter as plain data.
struct Variable {
  std::string name;
  std::vector<uint64_t> shape;
  /// Of a sparse table: parts that its rows are dealt to, by a hash of the id;
  /// fixed for the life of a job. 0: dense.
  uint32_t partitions = 0;

  uint64_t size() const; ///< number of float32 elements
};

/// A contiguous run of elements of one variable; the unit that is owned,
/// versioned and moved (PROTOCOL 7). `count` is in elements. A part of a sparse
/// table is a slice too: it has rows instead of a run, and a count of 0.
struct Slice {
  uint32_t id = 0;
  uint32_t variable = 0;
  uint64_t offset = 0;
  uint64_t count = 0;
  uint32_t partition = 0;
  uint32_t partitions = 0; ///< of the table; 0: a run
  uint64_t expected = 0;   ///< elements, were all rows there

  bool sparse() const { return partitions > 0; }
  /// That its parameters take; a part of a sparse table: if all rows were
  /// there.
  uint64_t bytes() const {
    return sizeof(float) * (sparse() ? expected : count);
  }

  friend bool operator==(const Slice&, const Slice&) = default;
};

/// Cuts start at multiples of this many elements, so that block sums
/// (PROTOCOL 5) never straddle a slice.
inline constexpr uint64_t block_elements = 4096;
/// A slice holds at most 1 MiB of parameters whatever the partitioner says.
inline constexpr uint64_t max_slice_bytes = uint64_t{1} << 20;

/// Cuts every variable into `shards` pieces (fewer when it is small).
struct FixedShards {
  uint32_t shards = 1;
};
/// Cuts a variable into as many pieces of at least `min_shard_bytes` as fit,
/// at most `max_shards`.
struct MinSize {
  uint64_t min_shard_bytes = 256 << 10;
  uint32_t max_shards = 1;
};
/// Cuts a variable into the fewest pieces of at most `max_shard_bytes`,
/// at most `max_shards` (0: no limit).
struct MaxSize {
  uint64_t max_shard_bytes = max_slice_bytes;
  uint32_t max_shards = 0;
};
using Partitioner = std::variant<FixedShards, MinSize, MaxSize>;

/// Cuts the variables once, in order; ids count from 0. Every element lies in
/// exactly one slice. Sparse tables are cut into their partitions.
/// Source: the three partitioners are those of tf.distribute.
std::vector<Slice> cut(const std::vector<Variable>& variables,
                       const Partitioner& partitioner);

/// How many parts a table is cut into, of which a step touches at most so many
/// rows: a part's rows of one step stay far below what a message may hold, and
/// a small table is one part.
uint32_t table_partitions(const Variable& table, uint64_t rows_of_step);

/// Returns the owner (0 … owners-1) of each slice, balanced by bytes: largest
/// first, each to the owner with the least so far (ties: lowest index).
/// Source: Graham, "Bounds on Multiprocessing Timing Anomalies", 1969.
std::vector<uint32_t> assign(const std::vector<Slice>& slices, uint32_t owners);

/// Names a partitioner as the command line does: `fixed:N`, `min_size:BYTES:N`
/// or `max_size:BYTES`, the latter with `:N` where the pieces are limited.
std::string to_string(const Partitioner& partitioner);
/// Reads what to_string writes; `min_size:BYTES` alone means 1 piece or more.
/// Errors: returns false for anything else, zero included.
bool parse(const std::string& text, Partitioner& partitioner);

} // namespace troupe
