#include "actors/process/end_pulse.hpp"

#include <chrono>
#include <utility>

namespace troupe {
namespace {

/// Twice within what a launcher waits for a sign of life.
constexpr std::chrono::milliseconds period{400};
constexpr int max_periods = 150;

} // namespace

EndPulse::EndPulse(std::function<void(const std::string&)> say)
  : say_(std::move(say)) {}

void EndPulse::begin() {
  if (say_ && !thread_.joinable())
    thread_ = std::thread{[this] { run(); }};
}

void EndPulse::run() {
  std::unique_lock guard{mutex_};
  for (int i = 0; i < max_periods; ++i) {
    if (changed_.wait_for(guard, period, [this] { return over_; }))
      return;
    say_("the run is over, its journal is still being written");
  }
}

EndPulse::~EndPulse() {
  {
    const std::lock_guard guard{mutex_};
    over_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable())
    thread_.join();
}

} // namespace troupe
