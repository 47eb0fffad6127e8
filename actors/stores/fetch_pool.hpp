#pragma once

#include "kernels/base/steady_clock.hpp"

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace troupe {

/// Fetches of several threads' own: what is begun is fetched ahead while there
/// is room for it, and who takes it waits only for what is not there yet. Two
/// who take the same at once fetch it once.
class FetchPool {
public:
  using Bytes = std::shared_ptr<const std::vector<std::byte>>;
  using Fetch = std::function<std::vector<std::byte>()>;

  /// Of what is fetched ahead and not taken `max_bytes` are held at most.
  FetchPool(uint32_t threads, uint64_t max_bytes);
  /// Joins its threads: fetches have to end by themselves.
  ~FetchPool();
  FetchPool(const FetchPool&) = delete;
  FetchPool& operator=(const FetchPool&) = delete;

  /// Fetches `bytes` bytes ahead, unless they are on their way, or there is no
  /// room.
  void begin(const std::string& key, uint64_t bytes, Fetch fetch);

  /// What was begun, or is fetched now by the caller, who also tries again what
  /// failed before anybody wanted it. Errors: those of the fetch.
  Bytes take(const std::string& key, const Fetch& fetch);

private:
  enum class State : uint8_t { waiting, running, done };
  struct Part {
    State state = State::waiting;
    uint64_t bytes = 0; ///< of what is held ahead; 0: nobody counts them
    Fetch fetch;
    Bytes result;
    std::exception_ptr error;
    SteadyClock::time_point done_at;
  };
  using Parts = std::unordered_map<std::string, std::shared_ptr<Part>>;

  void want_thread();
  void work();
  void run(std::unique_lock<std::mutex>& lock, Part& part, const Fetch& fetch);
  void forget(Parts::iterator at);
  void drop_forgotten();

  uint32_t max_threads_;
  uint64_t max_bytes_;
  std::mutex mutex_;
  std::condition_variable wanted_;
  std::condition_variable finished_;
  Parts parts_;
  std::deque<std::string> waiting_; ///< keys, some of which are taken by now
  uint64_t held_ = 0;
  uint32_t idle_ = 0;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

} // namespace troupe
