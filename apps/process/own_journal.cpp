#include "apps/process/own_journal.hpp"

#include "actors/journal/history.hpp"
#include "actors/journal/journal_file.hpp"
#include "kernels/base/error.hpp"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

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
  const auto lock = path + ".lock";
  Descriptor file{
    ::open(lock.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600)};
  if (!file)
    why_ = lock + ": " + std::strerror(errno);
  else if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0)
    why_ = path + ".db is that of another coordinator, which lives";
  if (!why_.empty())
    return;
  lock_ = std::move(file);
  path_ = path + ".db";
  if (journal_is_at(path_) && is_over(path_))
    remove();
}

void OwnJournal::remove() {
  std::error_code failure;
  for (const auto* part : {"", "-wal", "-shm"})
    std::filesystem::remove(path_ + part, failure);
}

} // namespace troupe
