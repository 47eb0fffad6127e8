#include "actors/launch/run_journal.hpp"

#include "actors/job/layout_choice.hpp"
#include "actors/job/other_flags.hpp"
#include "actors/journal/history.hpp"
#include "actors/journal/journal_writer.hpp"
#include "actors/voting/proposer.hpp"
#include "kernels/base/error.hpp"

#include <nlohmann/json.hpp>

#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <system_error>
#include <utility>

namespace troupe {
namespace {

constexpr std::chrono::seconds sync_deadline{20};
constexpr auto voters_journal = "the voters' journal";
constexpr auto voters_anew = "to begin anew, remove the files of all voters";

void check_asked(const std::string& where, const std::string& anew,
                 const std::string& there, const std::string& asked) {
  if (there == asked)
    return;
  const auto flags = other_flags(there, asked);
  throw InputError(where + ": of a job with other flags"
                   + (flags.empty() ? "" : " (" + flags + ")")
                   + "; give those of its run; " + anew);
}

/// Takes over the job of these events, if anything has come of it: while its
/// coordinator had not listened nobody can have joined, and a start that was
/// refused is no job to go on with.
/// `where`: "journal FILE", or who has it; `anew`: what begins the job anew.
void read_past(RunJournal& run, const std::string& where,
               const std::string& anew, const std::vector<JournalEvent>& events,
               const std::string& asked) {
  if (events.empty())
    return; // whoever made it was killed before it said anything
  JobHistory past;
  try {
    past = read_history(events);
  } catch (const InputError& failure) {
    throw InputError(where + ": damaged: " + failure.what());
  }
  if (past.job == 0)
    throw InputError(where + ": it names no job; remove it");
  if (past.asked == asked)
    run.initial = past.initial;
  if (past.address.empty())
    return;
  check_asked(where, anew, past.asked, asked);
  run.job = past.job;
  run.past = std::make_shared<JobHistory>(std::move(past));
}

std::function<void(const std::string&)>
put_into(const std::shared_ptr<NoteQueue>& notes) {
  return [notes](const std::string& line) { notes->put(line); };
}

/// `write` is given what to call once that is synced, and this waits for it.
/// Errors: InputError where it cannot be, in time.
template <class Write>
void write_synced(const Write& write) {
  auto synced = std::make_shared<std::promise<void>>();
  write([synced] { synced->set_value(); });
  if (synced->get_future().wait_for(sync_deadline) != std::future_status::ready)
    throw InputError("the journal was not synced within "
                     + std::to_string(sync_deadline.count())
                     + " s: is a majority of voters reachable?");
}

/// A coordinator begins, in a term that is synced before this returns.
/// Errors: InputError where it cannot be, in time.
void begin(const RunJournal& run, const std::string& asked) {
  JobJournal journal{run.sink, run.term};
  if (!run.past)
    journal.job(run.job, asked);
  write_synced([&](std::function<void()> synced) {
    journal.began(run.past != nullptr, std::move(synced));
  });
}

std::pair<std::string, std::string>
places_of(const CheckpointOptions& options) {
  const auto whole = [](const std::string& path) {
    std::error_code failure;
    const auto found = std::filesystem::weakly_canonical(path, failure);
    return failure ? path : found.string();
  };
  return {whole(options.initial), whole(options.dir)};
}

} // namespace

void check_voters_job(const std::string& there, const std::string& asked) {
  check_asked(voters_journal, voters_anew, there, asked);
}

void RunJournal::listens(const std::string& address, const std::string& metrics,
                         const JobOptions& job) const {
  if (!sink)
    return;
  JobJournal journal{sink, term};
  if (const auto layout = kept_layout(job); !layout.empty() && !past)
    journal.note("layout", nlohmann::json::parse(layout));
  journal.address(address, metrics, job.resume_from);
}

bool RunJournal::wrote_initial(const CheckpointOptions& options) const {
  return !options.initial.empty() && initial == places_of(options);
}

void RunJournal::writes_initial(const CheckpointOptions& options) const {
  JobJournal journal{sink, term};
  const auto places = places_of(options);
  write_synced([&](std::function<void()> synced) {
    journal.initial(places.first, places.second, std::move(synced));
  });
}

void RunJournal::take_back() {
  sink.reset(); // its last writer has gone
  std::error_code failure;
  if (!made.empty())
    std::filesystem::remove(made, failure);
}

RunJournal open_journal(const std::string& path, bool resumes, uint64_t job,
                        const std::string& asked) {
  RunJournal out;
  out.job = job;
  if (path.empty())
    return out;
  const bool again = resumes && journal_is_at(path);
  JournalFile file{path, again ? JournalFile::Open::resume
                               : JournalFile::Open::create};
  std::error_code failure;
  if (!again)
    out.made = std::filesystem::canonical(path, failure).string();
  if (again) {
    const auto where = "journal " + path;
    read_past(out, where, "to begin anew, remove the file or name another",
              file.events(), asked);
    out.term = out.past ? out.past->term + 1 : 1;
    if (out.past && out.past->over)
      throw InputError(where
                       + ": its run is over (`troupe events` shows it); remove "
                         "it or name another file");
  }
  out.sink = std::make_shared<JournalWriter>(std::move(file), path,
                                             put_into(out.notes), out.disk);
  begin(out, asked);
  return out;
}

std::shared_ptr<RunJournal>
lead_journal(const std::shared_ptr<Proposer>& proposer, uint64_t job,
             const std::string& asked,
             const std::function<std::string()>& stop) {
  const auto elected = proposer->wait_to_lead(stop);
  if (!elected)
    return nullptr;
  auto out = std::make_shared<RunJournal>();
  out->sink = proposer;
  out->term = elected->term;
  out->job = job;
  if (!elected->events.empty()) {
    read_past(*out, voters_journal, voters_anew, elected->events, asked);
    if (out->past && out->past->over)
      return out;
  }
  begin(*out, asked);
  return out;
}

} // namespace troupe
