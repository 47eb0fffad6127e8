#pragma once

#include "kernels/data/dataset.hpp"
#include "kernels/data/table_rows.hpp"
#include "kernels/records/held_pieces.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace troupe {

/// The rows of Parquet files that are left there: a row group is read whole
/// when a sample of it is wanted, and kept as long as there is room. Any thread
/// may ask.
class TableGroups : public SampleSource {
public:
  /// `spec` reads a part as all of them are read, with the rules of columns=
  /// spread out. `row_bytes`: of features and ids. Kept is at most `memory`,
  /// into which each part fits.
  TableGroups(DataSpec spec, ReadLimits limits, std::vector<TablePart> parts,
              uint64_t row_bytes, uint64_t memory);

  void read(uint64_t sample, void* row, const SampleDraw&) const override;
  void read_ids(uint64_t sample, int32_t* ids) const override;
  uint64_t stored_bytes(uint64_t sample) const override;
  void check_mix(const Dataset& train, const MixRule& mix) const override;

  uint64_t memory() const { return memory_; }
  /// The rows of a part, with labels; as take() says, once that was called.
  /// Errors: InputError (damaged, or changed since the rows were counted).
  std::shared_ptr<const Dataset> part(size_t i) const;
  /// Has columns read as these say. Not while others read.
  void take(const std::shared_ptr<FittedColumns>& columns);
  /// Gives back what is held. Not while others read.
  void drop();
  /// Calls use(part, its rows) for the samples of a set, in order.
  void for_parts(
    const Dataset& set,
    const std::function<void(const Dataset& part,
                             const std::vector<uint64_t>& rows)>& use) const;

private:
  size_t part_of(uint64_t sample) const;
  uint64_t bytes_of(size_t part) const {
    return row_bytes_ * parts_[part].rows;
  }
  std::shared_ptr<const Dataset> read_part(size_t i) const;

  DataSpec spec_;
  ReadLimits limits_;
  std::vector<TablePart> parts_;
  std::vector<uint64_t> firsts_; ///< firsts_[i]: the first sample of part i
  uint64_t row_bytes_;
  uint64_t memory_;
  std::shared_ptr<FittedColumns> columns_; ///< null: as they are

  mutable HeldPieces<Dataset> held_;
};

/// A Parquet table that is left in its files, where it is more than may be
/// held; else nothing. Labels are read, and kept in indexes where there are no
/// rules of columns.
/// Errors: InputError (a row group that does not fit; to train on it without
/// shuffle=blocks; what reading finds).
std::optional<Dataset> leave_in_groups(const DataSpec& spec,
                                       const ReadLimits& limits);

} // namespace troupe
