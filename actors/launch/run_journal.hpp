#pragma once

#include "actors/coordinator/coordinator.hpp"
#include "actors/job/checkpoint_options.hpp"
#include "actors/journal/job_journal.hpp"
#include "actors/process/note_queue.hpp"
#include "kernels/files/full_disk.hpp"

#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace troupe {

class Proposer;
struct JobHistory;

/// The journal of a run as its coordinator's process opens it.
struct RunJournal {
  std::shared_ptr<JournalSink> sink; ///< null: none is kept
  /// Null: the job begins. One that is over: there is nothing to do.
  std::shared_ptr<const JobHistory> past;
  uint64_t job = 0; ///< which one
  uint64_t term = 1;
  /// The disk that the file is on.
  std::shared_ptr<FullDisk> disk = std::make_shared<FullDisk>();
  /// Says that it cannot be written, or can again.
  std::shared_ptr<NoteQueue> notes = std::make_shared<NoteQueue>();
  std::string made = {}; ///< the file, where there was none before
  /// The initial weights that a start before was about to write as the run's
  /// first checkpoint, and the folder; it ended before it listened.
  std::pair<std::string, std::string> initial = {};

  /// Whether these are those.
  bool wrote_initial(const CheckpointOptions& options) const;
  /// Writes down that the initial weights are about to be written so; it is
  /// synced before this returns.
  /// Errors: InputError where it cannot be, in time.
  void writes_initial(const CheckpointOptions& options) const;

  /// Writes down that the coordinator listens there, and what the job began
  /// with: the checkpoint, or none, and the layout.
  void listens(const std::string& address, const std::string& metrics,
               const JobOptions& job) const;

  /// Closes it; a file that was made goes again.
  void take_back();
};

/// What `start` gives. One that is refused leaves no journal that was made for
/// it: there is nothing to go on with.
template <class Start>
auto start_with(RunJournal& journal, const Start& start) {
  try {
    return start();
  } catch (...) {
    journal.take_back();
    throw;
  }
}

/// Opens the journal at `path`, empty: none. Where `resumes`, one that is there
/// is gone on with, in the next term, which is synced before this returns. A
/// job that begins is written down as `job` and `asked` (JobOptions as JSON).
/// Errors: InputError where it is of another job, of a run that is over,
/// damaged, or there already.
RunJournal open_journal(const std::string& path, bool resumes, uint64_t job,
                        const std::string& asked);

/// The same of a journal that voters keep, once `proposer` leads. `stop` is
/// asked meanwhile: null where it gives a reason.
/// Errors: InputError where it is of another job, damaged, or no majority of
/// voters is reached any more.
std::shared_ptr<RunJournal>
lead_journal(const std::shared_ptr<Proposer>& proposer, uint64_t job,
             const std::string& asked,
             const std::function<std::string()>& stop);

/// Of a standby, whose own voter has heard of the job that the others keep.
/// Errors: InputError where it is another one.
void check_voters_job(const std::string& there, const std::string& asked);

} // namespace troupe
