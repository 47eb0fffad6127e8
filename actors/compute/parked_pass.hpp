#pragma once

#include "actors/compute/rank_shares.hpp"
#include "kernels/engine/operator.hpp"

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace troupe {

/// A pass that stops where it needs a sum over all virtual ranks, and is taken
/// on once that is known: it is its batch's exchange. It has a thread of its
/// own, which runs while begin() or go_on() waits for it and at no other time.
/// These by one thread at a time.
class ParkedPass final : public kernels::StatisticsExchange {
public:
  ParkedPass() = default;
  ~ParkedPass() override { abandon(); }
  ParkedPass(const ParkedPass&) = delete;
  ParkedPass& operator=(const ParkedPass&) = delete;

  /// Runs `pass` to its first sum or its end. Errors: what the pass throws, or
  /// std::system_error without a thread for it; it has ended then.
  void begin(std::function<void()> pass);
  bool waits() const { return state_ == State::parked; }
  /// What a pass that waits has of the sum.
  const RankShare& share() const { return share_; }
  /// Takes a pass that waits on, to its next sum or its end. Errors: as above.
  void go_on(const RankShare& sum);
  /// A pass that waits ends here.
  void abandon();

private:
  enum class State : uint8_t { ended, running, parked, abandoned };

  uint64_t sum(double* values, size_t count, uint64_t rows) override;
  void come_to(State state);
  void await_stop();

  State state_ = State::ended;
  RankShare share_;
  RankShare sum_;
  std::exception_ptr failure_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::thread thread_;
};

} // namespace troupe
