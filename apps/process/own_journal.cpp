#include "apps/process/own_journal.hpp"

#include "actors/journal/history.hpp"
#include "actors/journal/journal_file.hpp"
#include "kernels/base/error.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace troupe {
namespace {

bool is_over(const std::string& journal) {
  try {
    const JournalFile file{journal, JournalFile::Open::read};
    return read_history(file.events()).over;
  } catch (const InputError&) {
    return false; // whoever opens it says what is wrong
  }
}

} // namespace

OwnJournal::OwnJournal(const std::string& certificates,
                       const std::string& listen) {
  auto name = "journal-" + listen;
  std::ranges::replace(name, ':', '-');
  std::ranges::replace(name, '/', '-');
  const auto path = (std::filesystem::path{certificates} / name).string();
  try {
    lock_ = NameLock{path};
  } catch (const InputError& failure) {
    why_ = failure.what();
    return;
  }
  if (!lock_.held()) {
    why_ = path + ".db is that of another coordinator, which lives";
    return;
  }
  path_ = path + ".db";
  if (journal_is_at(path_) && is_over(path_))
    remove();
}

void OwnJournal::remove() const {
  std::error_code failure;
  for (const auto* part : {"", "-wal", "-shm"})
    std::filesystem::remove(path_ + part, failure);
}

} // namespace troupe
