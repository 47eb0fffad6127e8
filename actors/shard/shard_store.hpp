#pragma once

#include "actors/job/job.hpp"
#include "kernels/table/sparse_table.hpp"
#include "strategies/leases.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace troupe {

/// The state of a parameter-server shard in memory that outlives its process:
/// a file descriptor that the role supervisor keeps (memfd), mapped shared.
/// There is room for every slice of the job, at an offset that depends on the
/// job alone; pages that no slice of this shard has touched cost nothing.
/// Each slice has two banks of parameters and optimizer state; an update reads
/// the newest and writes the other, so a kill at any moment leaves the newest
/// whole. Bank of version v: v mod 2.
///
///   header | scalars | slice records | slice 0: bank 0, bank 1 | slice 1: … |
///
/// Owner: one shard's executor thread writes; its actor reads.
/// Source: Lorie, "Physical integrity in a large segmented database", TODS
/// 1977, for the shadow copy that one word makes the newest.
class ShardStore {
public:
  /// How many leases above the floor a slice can hold (async).
  static constexpr size_t max_exceptions = 4096;

  /// The round of a step in which its shares are decided (k of n).
  static constexpr uint32_t shares_round = 2;

  /// Maps `descriptor` (-1: anonymous memory of this process). What it holds
  /// is taken over when it belongs to the same job, otherwise version 0 of
  /// the slices `first` is written: the initial parameters, a pure function of
  /// the seed; or what Job::beginning has.
  /// Errors: std::runtime_error when the memory cannot be had; NoRoomError of
  /// a file that lies in bounds, then and of a slice that is taken in later.
  ShardStore(const Job& job, const std::vector<uint32_t>& first,
             uint64_t job_id, int descriptor);
  ~ShardStore();
  ShardStore(const ShardStore&) = delete;
  ShardStore& operator=(const ShardStore&) = delete;

  /// Whether a descriptor's memory holds states of this job.
  static bool is_of(int descriptor, uint64_t job_id);

  /// Tells whether the constructor took over an earlier process's state.
  bool taken_over() const { return taken_over_; }
  /// Whether a slice is here whole. What follows is of such slices.
  bool holds(uint32_t slice) const;
  std::vector<uint32_t> slices() const; ///< all that are, ascending
  /// All of the descriptor's memory that is mapped.
  std::span<const std::byte> memory() const { return {memory_, bytes_}; }

  /// Versions are counts of updates, less this (Consistency::count_from).
  void count_from(uint64_t updates) { from_ = updates; }
  uint64_t count_from() const { return from_; }
  /// How many updates the newest version has had.
  uint64_t updates(uint32_t slice) const;
  uint64_t newest(uint32_t slice) const;
  /// The older version that is still whole; equals newest() while the other
  /// bank is being written.
  uint64_t oldest(uint32_t slice) const;

  /// Shapes: float [slice.count].
  const float* values(uint32_t slice, uint64_t version) const;
  /// Shapes: float [state_slots(), slice.count].
  const float* state(uint32_t slice, uint64_t version) const;
  /// Begins the update to newest() + 1: returns where to write; the older
  /// version is gone from here on.
  /// Shapes: as values() and state().
  struct Target {
    float* values;
    float* state;
  };
  Target begin(uint32_t slice);
  /// Makes the written bank the newest version; async: together with the set
  /// of leases it contains.
  void commit(uint32_t slice);
  void commit(uint32_t slice, const LeaseSet& applied);
  LeaseSet leases(uint32_t slice) const;

  /// A copy of one version takes the place of what is here; the slice is not
  /// held until install() says that it is written.
  Target replace(uint32_t slice, uint64_t version);
  void install(uint32_t slice, uint64_t version, const LeaseSet& applied);
  /// Holds the slice as the job, or the checkpoint that it went back to last,
  /// begins: everybody has lost what came after.
  void begin_again(uint32_t slice) { initialise(slice); }
  /// The slice has moved away: its memory is given back.
  void drop(uint32_t slice);
  /// What SliceState::epoch says; 0 for a slice at its beginning.
  uint64_t lineage(uint32_t slice) const;
  void set_lineage(uint32_t slice, uint64_t epoch);

  /// The rows of a slice that is a part of a sparse table, in memory behind all
  /// others; its version is its count of updates. Its updates lie between
  /// begin() and commit() as well.
  SparseTable& table(uint32_t slice) const { return *tables_[slice]; }

  /// Writes down what a round of a step decided, before anybody is told: whole
  /// or not at all. Kept until the same round of step + 2.
  /// Errors: false for a round that no step has, or more than a round decides.
  bool decide(uint64_t step, uint32_t round, const std::vector<float>& values);
  /// What was written down of that round; empty: nothing.
  std::vector<float> decided(uint64_t step, uint32_t round) const;
  struct Decision {
    uint64_t step = 0;
    uint32_t round = 0;
    std::vector<float> values;
  };
  std::vector<Decision> decisions() const; ///< all that is kept

  /// Holds these slices as they are in `beginning` (null: at version 0), and no
  /// other.
  /// Errors: InputError where that cannot be read.
  void reset(const std::vector<uint32_t>& slices,
             std::shared_ptr<const Beginning> beginning);

private:
  struct Header;
  struct Record;
  struct Scalars;

  Scalars& scalars(uint64_t step, uint32_t round) const;
  Record& record(uint32_t slice) const;
  /// Where the result of so many updates lies.
  Target bank(uint32_t slice, uint64_t updates) const;
  void begin_with(const std::vector<uint32_t>& first, uint64_t job_id);
  void take_first(const std::vector<uint32_t>& first, uint64_t job_id);
  void take_slice(uint32_t slice);
  uint64_t records_end() const;
  uint64_t slice_bytes(uint32_t slice) const;
  void initialise(uint32_t slice);
  void restore(uint32_t slice);
  void open_table(uint32_t slice, uint64_t version);

  const Job& job_;
  std::vector<uint64_t> offsets_; ///< bytes, of bank 0, per slice
  std::vector<uint64_t> bank_bytes_;
  std::byte* memory_ = nullptr;
  size_t bytes_ = 0;
  int descriptor_;
  bool bounded_ = false; ///< lies_in_bounds()
  uint32_t slots_ = 0;
  size_t max_values_ = 0;
  size_t scalars_bytes_ = 0; ///< of one round of one step
  bool taken_over_ = false;
  std::shared_ptr<const Beginning> beginning_; ///< null: version 0
  uint64_t from_ = 0;
  std::vector<std::unique_ptr<SparseTable>> tables_; ///< of those held
};

} // namespace troupe
