#include "actors/journal/journal_writer.hpp"

#include "kernels/error.hpp"

#include <pthread.h>

#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace troupe {

struct JournalWriter::Impl {
  Impl(JournalFile opened, std::string where,
       std::function<void(const std::string&)> tell)
    : file(std::move(opened)),
      path(std::move(where)),
      failed(std::move(tell)),
      thread([this] { run(); }) {}

  void run() {
    pthread_setname_np(pthread_self(), "journal");
    std::unique_lock guard{mutex};
    for (;;) {
      changed.wait(guard, [this] { return stopping || !events.empty(); });
      if (events.empty())
        return;
      auto batch = std::exchange(events, {});
      auto waiting = std::exchange(synced, {});
      guard.unlock();
      write(batch);
      for (auto& then : waiting)
        then();
      guard.lock();
    }
  }

  /// A journal that cannot be written must not stop a run that can go on.
  void write(std::vector<JournalEvent>& batch) {
    if (broken)
      return;
    try {
      file.append(batch);
    } catch (const InputError& failure) {
      broken = true;
      std::error_code ignored;
      for (const char* part : {"", "-wal", "-shm"})
        std::filesystem::rename(path + part, path + ".broken" + part, ignored);
      if (failed)
        failed(std::string{failure.what()}
               + "; the run goes on, but not past its coordinator's death");
    }
  }

  JournalFile file;
  std::string path;
  std::function<void(const std::string&)> failed;
  bool broken = false; ///< touched by the thread alone
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<JournalEvent> events;
  std::vector<std::function<void()>> synced;
  bool stopping = false;
  std::thread thread; // last: it uses what is above
};

JournalWriter::JournalWriter(
  JournalFile file, std::string path,
  std::function<void(const std::string& line)> failed)
  : impl_(std::make_unique<Impl>(std::move(file), std::move(path),
                                 std::move(failed))) {}

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
