#include "apps/process/own_journal.hpp"

#include "actors/journal/history.hpp"
#include "actors/journal/journal_file.hpp"
#include "kernels/base/error.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

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

/// Whether an open file is still the one of that name.
bool is_at(int file, const std::string& path) {
  struct stat own {};
  struct stat there {};
  return ::fstat(file, &own) == 0 && ::stat(path.c_str(), &there) == 0
         && own.st_ino == there.st_ino && own.st_dev == there.st_dev;
}

} // namespace

OwnJournal::OwnJournal(const std::string& certificates,
                       const std::string& listen) {
  auto name = "journal-" + listen;
  std::ranges::replace(name, ':', '-');
  std::ranges::replace(name, '/', '-');
  const auto path = (std::filesystem::path{certificates} / name).string();
  lock_path_ = path + ".lock";
  lock_.reset(::open(lock_path_.c_str(),
                     O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!lock_)
    why_ = lock_path_ + ": " + std::strerror(errno);
  else if (::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0
           || !is_at(lock_.get(), lock_path_))
    why_ = path + ".db is that of another coordinator, which lives";
  if (!why_.empty()) {
    lock_.reset();
    lock_path_.clear();
    return;
  }
  path_ = path + ".db";
  if (journal_is_at(path_) && is_over(path_))
    remove_files();
}

void OwnJournal::remove() {
  remove_files();
  std::error_code failure;
  std::filesystem::remove(lock_path_, failure);
}

void OwnJournal::remove_files() const {
  std::error_code failure;
  for (const auto* part : {"", "-wal", "-shm"})
    std::filesystem::remove(path_ + part, failure);
}

} // namespace troupe
