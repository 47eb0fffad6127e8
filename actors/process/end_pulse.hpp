#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace troupe {

/// Says every now and then that this process still writes what it has, from
/// when it begins until its end, but not for more than a minute: a launcher
/// waits for it that long. A process that is fast enough says nothing.
class EndPulse {
public:
  explicit EndPulse(std::function<void(const std::string& line)> say);
  ~EndPulse();
  EndPulse(const EndPulse&) = delete;
  EndPulse& operator=(const EndPulse&) = delete;

  void begin();

private:
  void run();

  std::function<void(const std::string&)> say_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;
};

} // namespace troupe
