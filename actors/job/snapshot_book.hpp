#pragma once

#include "actors/job/job.hpp"
#include "actors/wire/messages/snapshots.hpp"
#include "actors/wire/messages/supervision.hpp"
#include "kernels/files/safetensors.hpp"

#include <array>
#include <map>
#include <string>
#include <vector>

namespace troupe {

/// A whole version of the parameters and the optimizer's state, slice by
/// slice.
struct Snapshot {
  uint64_t version = 0;
  std::vector<SnapshotSlice> slices; ///< by slice id
  /// The rows of parts of sparse tables, by slice id, in chunks.
  std::vector<std::vector<TensorView>> rows;
  uint64_t table_bytes = 0; ///< of memory that sparse tables take at the shards
  bool evaluated = false;   ///< of rows only what an evaluation reads
};

/// Puts the slices that owners send together into whole snapshots.
class SnapshotBook {
public:
  explicit SnapshotBook(const Job& job) : job_(job) {}

  /// Returns the snapshots that this slice completed. A slice that does not fit
  /// the plan, or came before, is dropped. Where there are sparse tables each
  /// version has two: for an evaluation, and the whole of it, which will do
  /// for that as well.
  std::vector<Snapshot> add(const SnapshotSlice& slice);
  std::vector<Snapshot> add(const RowSnapshot& chunk);
  void clear() { partial_ = {}; }
  /// That version comes again, and is wanted again.
  void again(uint64_t version) {
    for (auto& of : partial_)
      of.erase(version);
  }

private:
  struct Partial {
    std::vector<SnapshotSlice> slices;
    std::vector<std::vector<TensorView>> rows;
    std::vector<uint32_t> chunks; ///< of rows that are missing, by slice id
    std::vector<bool> present;
    size_t missing = 0;
    uint64_t table_bytes = 0;
  };
  Partial& partial(bool evaluated, uint64_t version);
  void arrived(bool evaluated, uint64_t version, uint32_t slice,
               std::vector<Snapshot>& whole);

  const Job& job_;
  std::array<std::map<uint64_t, Partial>, 2> partial_; ///< [evaluated]
};

/// What an evaluator is sent of a snapshot.
std::vector<Evaluate> evaluation_parts(uint64_t job, const Snapshot& snapshot);

/// The whole parameters of a snapshot, independent of slices and owners.
std::vector<NamedTensor> weights_of(const Job& job, const Snapshot& snapshot);
/// How many rows a snapshot has, and how much memory they take where they are
/// trained.
struct TableSizes {
  uint64_t rows = 0;
  uint64_t bytes = 0;
};
TableSizes tables_of(const Job& job, const Snapshot& snapshot);
/// Hashes over weights_of(); one dense tensor is in memory at a time.
std::string weights_sha256(const Job& job, const Snapshot& snapshot);
/// The hash of weights, optimizer state ("adam_m/dense_0/weight") and the step
/// (PROTOCOL 22).
std::string state_sha256(const Job& job, const Snapshot& snapshot);

} // namespace troupe
