#pragma once

#include "actors/job.hpp"

#include <chrono>
#include <string>
#include <thread>

namespace troupe {

/// Makes the worker that an experiment slows take so many times as long
/// (--slow-worker 1:5: worker 1, five times).
class Slowed {
public:
  Slowed(const JobOptions& options, uint32_t worker) {
    const auto& text = options.slow_worker;
    const auto colon = text.find(':');
    if (colon != std::string::npos && std::stoul(text) == worker)
      factor_ = static_cast<uint32_t>(std::stoul(text.substr(colon + 1)));
  }

  /// Computes, then waits. Call from a task of the executor.
  template <class Compute>
  auto operator()(Compute compute) const {
    const auto begin = std::chrono::steady_clock::now();
    auto result = compute();
    std::this_thread::sleep_for((std::chrono::steady_clock::now() - begin)
                                * (factor_ - 1));
    return result;
  }

private:
  uint32_t factor_ = 1;
};

} // namespace troupe
