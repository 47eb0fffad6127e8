#include "actors/journal/journal_writer.hpp"

#include "kernels/base/error.hpp"

#include <pthread.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <iterator>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace troupe {

namespace {

constexpr std::chrono::milliseconds retry_period{100};
constexpr size_t max_kept = 100'000;
/// Some minutes of a run's.
constexpr size_t fold_period = 2'048;

/// Which file has a name; none: nothing is there, or it cannot be known.
using Place = std::optional<std::pair<dev_t, ino_t>>;
Place place_of(const std::string& path) {
  struct stat about {};
  if (::stat(path.c_str(), &about) != 0)
    return std::nullopt;
  return std::pair{about.st_dev, about.st_ino};
}

/// A folder that may not be searched now hides its files and has them still.
bool is_hidden(const std::string& path) {
  struct stat about {};
  return ::stat(path.c_str(), &about) != 0 && errno != ENOENT
         && errno != ENOTDIR;
}

} // namespace

struct JournalWriter::Impl {
  Impl(JournalFile opened, std::string where,
       std::function<void(const std::string&)> tell,
       std::shared_ptr<FullDisk> on)
    : file(std::move(opened)),
      path(std::move(where)),
      said(std::move(tell)),
      disk(std::move(on)),
      place(place_of(path)),
      thread([this] { run(); }) {}

  void run() {
    pthread_setname_np(pthread_self(), "journal");
    std::unique_lock guard{mutex};
    for (;;) {
      const auto due = [this] { return stopping || !events.empty(); };
      if (broken && !kept.empty())
        changed.wait_for(guard, retry_period, due);
      else
        changed.wait(guard, due);
      const bool last = stopping && events.empty();
      if (last && kept.empty())
        return;
      auto batch = std::exchange(events, {});
      auto waiting = std::exchange(synced, {});
      guard.unlock();
      write(batch);
      for (auto& then : waiting)
        then();
      guard.lock();
      if (last)
        return;
    }
  }

  /// A journal that cannot be written must not stop a run that can go on.
  void write(std::vector<JournalEvent>& batch) {
    if (given_up)
      return;
    std::move(batch.begin(), batch.end(), std::back_inserter(kept));
    const bool full = disk && disk->full();
    if (disk)
      disk->wait_if_slow();
    try {
      const auto added = kept.size();
      const bool anew = come_back();
      file.append(kept, full);
      kept.clear();
      if (std::exchange(broken, false))
        rename(".broken", "");
      else if (!anew)
        return fold(added);
      place = place_of(path);
      say("journal " + path + ": "
          + (anew ? "was removed, and is there again" : "is written again")
          + ", nothing is missing");
    } catch (const InputError& failure) {
      if (full)
        disk->refuse();
      if (!std::exchange(broken, true)) {
        rename("", ".broken");
        say(std::string{failure.what()}
            + "; the run goes on, but not past its coordinator's death");
      }
      given_up = kept.size() > max_kept;
      if (given_up)
        kept.clear();
    }
  }

  /// A cleaner may take the file, or its folder, away under the run. Returns
  /// whether it had to be made anew.
  /// Errors: InputError where that cannot be done.
  bool come_back() {
    if (!place || place_of(path) == place || place_of(path + ".broken") == place
        || is_hidden(path))
      return false;
    std::error_code failure; // making the file says why
    const auto folder = std::filesystem::path{path}.parent_path();
    if (!folder.empty())
      std::filesystem::create_directories(folder, failure);
    file = file.copied_to(path);
    place = place_of(path);
    broken = false;
    return true;
  }

  /// What cannot be folded now may be later.
  void fold(size_t added) {
    unfolded += added;
    if (unfolded < fold_period)
      return;
    unfolded = 0;
    try {
      file.fold();
    } catch (const InputError&) { // it is whole as it was
    }
  }

  void rename(const std::string& from, const std::string& to) const {
    std::error_code ignored;
    for (const char* part : {"", "-wal", "-shm"})
      std::filesystem::rename(path + from + part, path + to + part, ignored);
  }

  void say(const std::string& line) const {
    if (said)
      said(line);
  }

  JournalFile file;
  std::string path;
  std::function<void(const std::string&)> said;
  std::shared_ptr<FullDisk> disk; ///< null: as it is
  // --- of the thread
  std::vector<JournalEvent> kept; ///< not written yet
  bool broken = false;
  bool given_up = false;
  Place place;         ///< of the file, under whichever name
  size_t unfolded = 0; ///< events since it was folded
  // --- shared
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<JournalEvent> events;
  std::vector<std::function<void()>> synced;
  bool stopping = false;
  std::thread thread; // last: it uses what is above
};

JournalWriter::JournalWriter(JournalFile file, std::string path,
                             std::function<void(const std::string& line)> said,
                             std::shared_ptr<FullDisk> disk)
  : impl_(std::make_unique<Impl>(std::move(file), std::move(path),
                                 std::move(said), std::move(disk))) {}

JournalWriter::~JournalWriter() {
  {
    const std::lock_guard guard{impl_->mutex};
    impl_->stopping = true;
  }
  impl_->changed.notify_one();
  impl_->thread.join();
}

void JournalWriter::append(JournalEvent event, std::function<void()> synced) {
  {
    const std::lock_guard guard{impl_->mutex};
    impl_->events.push_back(std::move(event));
    if (synced)
      impl_->synced.push_back(std::move(synced));
  }
  impl_->changed.notify_one();
}

} // namespace troupe
