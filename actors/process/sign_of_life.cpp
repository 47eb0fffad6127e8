#include "actors/process/sign_of_life.hpp"

#include <utility>

namespace troupe {

SignOfLife::SignOfLife(std::function<void(const std::string&)> say,
                       Options options)
  : say_(std::move(say)), options_(std::move(options)) {}

void SignOfLife::begin() {
  if (say_ && !thread_.joinable())
    thread_ = std::thread{[this] { run(); }};
}

void SignOfLife::run() {
  std::unique_lock guard{mutex_};
  for (int i = 0; i < options_.max_lines; ++i) {
    if (changed_.wait_for(guard, options_.period, [this] { return over_; }))
      return;
    say_(options_.line);
  }
}

SignOfLife::~SignOfLife() {
  {
    const std::lock_guard guard{mutex_};
    over_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable())
    thread_.join();
}

} // namespace troupe
