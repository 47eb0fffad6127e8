#include "actors/run_journal.hpp"

#include "actors/journal/history.hpp"
#include "actors/journal/journal_writer.hpp"
#include "kernels/error.hpp"

#include <filesystem>
#include <future>
#include <utility>

namespace troupe {
namespace {

JobHistory read_past(const std::string& path, JournalFile& file,
                     const std::string& asked) {
  JobHistory past;
  try {
    past = read_history(file.events());
  } catch (const InputError& failure) {
    const std::string line = failure.what();
    throw InputError(line.starts_with("journal ")
                       ? line
                       : "journal " + path + ": damaged: " + line);
  }
  if (past.job == 0)
    throw InputError("journal " + path + ": it names no job; remove it");
  if (past.over)
    throw InputError("journal " + path
                     + ": its run is over (`troupe events` shows it); remove "
                       "it or name another file");
  if (past.asked != asked)
    throw InputError("journal " + path
                     + ": of a job with other flags; give those of its run, or "
                       "name another file");
  return past;
}

} // namespace

void RunJournal::listens(const std::string& address, const std::string& metrics,
                         const std::string& resume_from) const {
  if (writer)
    JobJournal{writer, term}.address(address, metrics, resume_from);
}

RunJournal open_journal(const std::string& path, bool resumes, uint64_t job,
                        const std::string& asked,
                        std::function<void(const std::string&)> failed) {
  RunJournal out;
  if (path.empty())
    return out;
  const bool again = resumes && std::filesystem::exists(path);
  JournalFile file{path, again ? JournalFile::Open::resume
                               : JournalFile::Open::create};
  if (again) {
    out.past = std::make_shared<JobHistory>(read_past(path, file, asked));
    out.term = out.past->term + 1;
  }
  out.writer = std::make_shared<JournalWriter>(std::move(file), path,
                                               std::move(failed));
  JobJournal journal{out.writer, out.term};
  std::promise<void> synced;
  if (!again)
    journal.job(job, asked);
  journal.began(again, [&] { synced.set_value(); });
  synced.get_future().get();
  return out;
}

} // namespace troupe
