#pragma once

#include "actors/job/snapshot_book.hpp"
#include "kernels/checkpoint/read_checkpoint.hpp"
#include "kernels/checkpoint/write_checkpoint.hpp"
#include "kernels/table/id_pages.hpp"

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

/// Sparse tables in checkpoints: of each part of a table the ids of its rows
/// (I64, ascending), and the rows: values, slots of state, and where rows are
/// counted two words of that.
namespace troupe {

/// The rows of a snapshot's tables; `ids` keeps what the file points to.
FileToWrite table_file(const Job& job, const Snapshot& snapshot,
                       std::vector<std::vector<int64_t>>& ids);

/// What a file of tables points to.
struct RowsToWrite {
  std::deque<std::vector<int64_t>> ids;
  std::deque<std::vector<float>> rows;
};
/// The rows of tables that are there whole, all of them, with the state of no
/// update; `rows_of` gives where those of a variable lie, [rows, width].
FileToWrite
whole_table_file(const Job& job,
                 const std::function<const float*(uint32_t variable)>& rows_of,
                 RowsToWrite& kept);

/// How many parts a checkpoint has of a table; 0: it has none of its rows.
uint32_t table_parts(const CheckpointReader& reader, const std::string& table);
/// Words of a row, the same in all parts of a table.
/// Errors: InputError where it is not, or parts are not as they are written.
uint64_t stored_width(const CheckpointReader& reader, const std::string& table);

/// A table as the job has it now.
struct TableOfJob {
  std::string name;
  uint64_t rows = 0; ///< ids are below
};

using TakeRows = std::function<void(const IdPages& ids, const float* rows)>;

/// Gives the rows of one part of a table that is cut into `partitions` now,
/// some at a time, whatever it was cut into then. Errors: InputError with the
/// system's reason, or what is wrong with the ids.
void read_part(const CheckpointReader& reader, const TableOfJob& table,
               uint32_t partition, uint32_t partitions, const TakeRows& take);
/// The same of all rows of one part as it was cut.
void read_stored_part(const CheckpointReader& reader, const TableOfJob& table,
                      uint32_t part, const TakeRows& take);

} // namespace troupe
