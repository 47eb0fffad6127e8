#pragma once

#include "kernels/base/steady_clock.hpp"
#include "kernels/files/file_system.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>

namespace troupe {

/// The machine's files, on a disk that may be full or slow for a while, on
/// purpose. Full: nothing is made and nothing written (ENOSPC); what is there
/// can be read, renamed and removed. Slow: what is to be synced takes a second.
/// Thread-safe.
class FullDisk final : public FileSystem {
public:
  void fill(std::chrono::milliseconds lasts);
  bool full() const;
  /// Counts a call that had no space, and sets errno.
  void refuse();
  uint64_t refused() const { return refused_; } ///< calls so far

  void slow_down(std::chrono::milliseconds lasts);
  bool slow() const;
  /// Takes what a sync does on a slow disk.
  void wait_if_slow();
  uint64_t waited() const { return waited_; } ///< syncs that were slow so far

  int open(const char* path, int flags, mode_t mode) override;
  ssize_t write(int handle, const void* bytes, size_t size) override;
  int fsync(int handle) override;
  int close(int handle) override;
  int rename(const char* from, const char* to) override;
  int unlink(const char* path) override;
  int mkdir(const char* path, mode_t mode) override;
  int rmdir(const char* path) override;

private:
  using Clock = SteadyClock;

  std::atomic<Clock::rep> until_{0};
  std::atomic<uint64_t> refused_{0};
  std::atomic<Clock::rep> slow_until_{0};
  std::atomic<uint64_t> waited_{0};
};

} // namespace troupe
