#pragma once

#include "actors/job/checkpoint_rows.hpp"
#include "kernels/checkpoint/read_checkpoint.hpp"
#include "kernels/graph/graph.hpp"
#include "kernels/table/id_pages.hpp"
#include "strategies/consistency.hpp"
#include "strategies/leases.hpp"
#include "strategies/slicing.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace troupe {

struct Job;

/// A checkpoint as the state that a job begins with, or goes back to: whatever
/// roles it has, each reads what it keeps.
class Beginning {
public:
  /// Opens a checkpoint's folder.
  /// Errors: InputError naming the first thing in which the checkpoint is not
  /// of this job.
  Beginning(const Job& job, const std::string& folder);

  const std::string& folder() const { return reader_.folder(); }
  const CheckpointManifest& manifest() const { return reader_.manifest(); }
  uint64_t step() const { return reader_.manifest().step; }
  /// The period of the job that begins with it.
  const Consistency& period() const { return period_; }
  /// The same for another mode than the job's first.
  /// Errors: InputError where it was taken in the middle of a step.
  Consistency period_as(const Consistency& mode) const;
  /// How many updates a slice of the job has had, and asynchronously which.
  uint64_t updates(uint32_t slice) const { return marks_[slice].updates; }
  LeaseSet leases(uint32_t slice) const;

  /// Fills in elements of a variable's parameters (run 0), or of a slot of its
  /// state (from 1 on).
  /// Errors: InputError with the system's reason.
  void read(uint32_t variable, uint32_t run, uint64_t offset,
            std::span<float> out) const;
  /// Gives the rows of a slice that is a part of a sparse table, some at a
  /// time. Shapes: rows [ids, row_copy_width()]. Errors: as read().
  void
  read_rows(const Slice& slice,
            const std::function<void(const IdPages& ids, const float* rows)>&
              take) const;

private:
  TableOfJob table(uint32_t variable) const;
  /// Rows that nobody had touched have what the seed makes.
  void read_table(uint32_t variable, uint32_t run, uint64_t offset,
                  std::span<float> out) const;

  CheckpointReader reader_;
  Graph graph_;
  uint64_t seed_;
  uint32_t virtual_ranks_;
  Consistency period_;
  std::vector<CheckpointSlice> marks_;          ///< by slice of the job
  std::vector<std::vector<std::string>> names_; ///< by variable and run
};

/// What a rollback goes back to: a checkpoint's folder, or where the job began.
/// Errors: InputError as above.
std::shared_ptr<const Beginning> beginning_at(const Job& job,
                                              const std::string& folder);

/// The name of a tensor of a checkpoint: the whole parameter's (run 0), or that
/// of a slot of its state ("adam_m/dense_0/weight").
std::string tensor_name(const Job& job, uint32_t whole, uint32_t run);

/// What must be equal in the job that a checkpoint is of, and the job that goes
/// on from it; the names are those of flags.
CheckpointFacts facts_of(const Job& job);
/// What may differ, though later weights will.
CheckpointFacts settings_of(const Job& job);

/// Names what is not equal: "--lr 0.01 (0.001 in the checkpoint)"; empty: all
/// is. What only one of the two has does not count.
std::string differences(const CheckpointFacts& of_job,
                        const CheckpointFacts& of_checkpoint);

} // namespace troupe
