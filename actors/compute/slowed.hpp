#pragma once

#include "actors/compute/fault_trigger.hpp"
#include "actors/job/job.hpp"
#include "kernels/base/steady_clock.hpp"
#include "kernels/engine/parameter_gate.hpp"

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>

namespace troupe {

/// Makes the worker that an experiment slows take so many times as long
/// (--slow-worker 1:5: worker 1, five times), and one that a fault slows so
/// much longer.
class Slowed {
public:
  Slowed(const JobOptions& options, uint32_t worker,
         std::shared_ptr<const FaultTrigger> faults)
    : faults_(std::move(faults)) {
    const auto& text = options.slow_worker;
    const auto colon = text.find(':');
    if (colon != std::string::npos && std::stoul(text) == worker)
      factor_ = static_cast<uint32_t>(std::stoul(text.substr(colon + 1)));
  }

  /// Computes, then waits. Call from a task of the executor. What was waited
  /// for at a gate (null: there is none) is no computing; and who was broken
  /// off is waited for already.
  template <class Compute>
  auto operator()(Compute compute, const ParameterGate* gate = nullptr) const {
    const auto begin = SteadyClock::now();
    auto result = compute();
    auto took = SteadyClock::now() - begin;
    if constexpr (requires { result.abandoned; })
      if (result.abandoned)
        return result;
    if (gate != nullptr)
      took -= gate->waited();
    const auto longer = took * (factor_ - 1) + faults_->delay();
    std::this_thread::sleep_for(longer);
    if constexpr (requires { result.slowed_seconds; })
      result.slowed_seconds = std::chrono::duration<double>{longer}.count();
    return result;
  }

private:
  std::shared_ptr<const FaultTrigger> faults_;
  uint32_t factor_ = 1;
};

} // namespace troupe
