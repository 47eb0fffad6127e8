#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace troupe {

/// Says a line every now and then while this process does what takes long, from
/// begin() until its end: who started it takes that for a sign of life. A
/// process that is fast enough says nothing.
class SignOfLife {
public:
  struct Options {
    std::string line;
    std::chrono::milliseconds period;
    int max_lines; ///< then it is silent
  };

  SignOfLife(std::function<void(const std::string& line)> say, Options options);
  ~SignOfLife();
  SignOfLife(const SignOfLife&) = delete;
  SignOfLife& operator=(const SignOfLife&) = delete;

  void begin();

private:
  void run();

  std::function<void(const std::string&)> say_;
  const Options options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;
};

} // namespace troupe
