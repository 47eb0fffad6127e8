#pragma once

#include "actors/job.hpp"
#include "strategies/leases.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace troupe {

/// The state of a parameter-server shard in memory that outlives its process:
/// a file descriptor that the node supervisor keeps (memfd), mapped shared.
/// Each slice has two banks of parameters and optimizer state; an update reads
/// the newest and writes the other, so a kill at any moment leaves the newest
/// whole. Bank of version v: v mod 2.
///
///   header | scalars | slice records | slice 0: bank 0, bank 1 | slice 1: … |
///
/// Owner: one shard's executor thread writes; its actor reads.
class ShardStore {
public:
  /// How many leases above the floor a slice can hold (async).
  static constexpr size_t max_exceptions = 4096;

  /// The round of a step in which its shares are decided (k of n).
  static constexpr uint32_t shares_round = 2;

  /// Maps `descriptor` (-1: anonymous memory of this process). What it holds
  /// is taken over when it belongs to the same job, otherwise version 0 is
  /// written: the initial parameters, a pure function of the seed.
  /// Errors: std::runtime_error when the memory cannot be had.
  ShardStore(const Job& job, std::vector<uint32_t> slices, uint64_t job_id,
             int descriptor);
  ~ShardStore();
  ShardStore(const ShardStore&) = delete;
  ShardStore& operator=(const ShardStore&) = delete;

  /// Tells whether the constructor took over an earlier process's state.
  bool taken_over() const { return taken_over_; }
  const std::vector<uint32_t>& slices() const { return slices_; }
  /// All of the descriptor's memory that is mapped.
  std::span<const std::byte> memory() const { return {memory_, bytes_}; }

  /// Versions are counts of updates, less this (Consistency::count_from).
  void count_from(uint64_t updates) { from_ = updates; }
  /// How many updates the newest version has had.
  uint64_t updates(size_t local) const;
  uint64_t newest(size_t local) const;
  /// The older version that is still whole; equals newest() while the other
  /// bank is being written.
  uint64_t oldest(size_t local) const;

  const float* values(size_t local, uint64_t version) const;
  const float* state(size_t local, uint64_t version) const;
  /// Begins the update to newest() + 1: returns where to write; the older
  /// version is gone from here on.
  struct Target {
    float* values;
    float* state;
  };
  Target begin(size_t local);
  /// Makes the written bank the newest version; async: together with the set
  /// of leases it contains.
  void commit(size_t local);
  void commit(size_t local, const LeaseSet& applied);
  LeaseSet leases(size_t local) const;

  /// Writes down what a round of a step decided, before anybody is told: whole
  /// or not at all. Kept until the same round of step + 2.
  void decide(uint64_t step, uint32_t round, const std::vector<float>& values);
  /// What was written down of that round; empty: nothing.
  std::vector<float> decided(uint64_t step, uint32_t round) const;

  /// Back to version 0 in every slice.
  void reset();

private:
  struct Header;
  struct Record;
  struct Scalars;

  Scalars& scalars(uint64_t step, uint32_t round) const;
  Record& record(size_t local) const;
  void initialise(size_t local);

  const Job& job_;
  std::vector<uint32_t> slices_;
  std::vector<uint64_t> offsets_; ///< bytes, of bank 0, per slice
  std::vector<uint64_t> bank_bytes_;
  std::byte* memory_ = nullptr;
  size_t bytes_ = 0;
  uint32_t slots_ = 0;
  size_t scalars_bytes_ = 0; ///< of one round of one step
  bool taken_over_ = false;
  uint64_t from_ = 0;
};

} // namespace troupe
