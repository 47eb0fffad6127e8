#pragma once

#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

/// Lines for the user from a thread that knows no actor. Thread-safe.
class NoteQueue {
public:
  void put(const std::string& line) {
    const std::lock_guard guard{mutex_};
    lines_.push_back(line);
  }
  std::vector<std::string> take() {
    const std::lock_guard guard{mutex_};
    return std::exchange(lines_, {});
  }

private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

} // namespace troupe
