#pragma once

#include "kernels/base/steady_clock.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

/// What a role was busy with, or waited for.
enum class Activity : uint8_t {
  compute,          ///< leaves of a step
  pull,             ///< from asking until the last slice is there
  push,             ///< from the first push until the version it makes is here
  reduce,           ///< waiting for the step's sums
  serve,            ///< a shard sums, applies, copies
  forward,          ///< a stage, or a part of a model, of a micro-batch
  backward,         ///< the same; or its half for inputs
  backward_weights, ///< the half for weights
  update,           ///< a stage
};
inline constexpr size_t activities = 9;
const char* to_string(Activity activity);

/// From when to when a role did something.
struct Span {
  uint64_t begin_ns = 0; ///< of this host's steady clock
  uint64_t end_ns = 0;   ///< the same
  uint64_t step = 0;     ///< 0: of no step in particular
  Activity activity = Activity::compute;
  uint32_t detail = 0; ///< of a stage: virtual rank; else 0
};

/// Keeps a role's last spans in a file of fixed size that its process maps:
/// they are there after it was killed. Any thread; a span costs a clock's
/// reading and a store of 40 bytes.
class FlightRecorder {
public:
  static constexpr uint64_t capacity = 1 << 15; ///< spans

  /// Makes FOLDER/ROLE-PID.flight, and removes what more than two earlier lives
  /// of the role have left there.
  /// Errors: InputError naming the file.
  FlightRecorder(const std::string& folder, const std::string& role);
  ~FlightRecorder();
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

  void record(Activity activity, SteadyClock::time_point begin,
              SteadyClock::time_point end, uint64_t step,
              uint32_t detail = 0) noexcept {
    const auto number = next_->fetch_add(1, std::memory_order_relaxed);
    auto& slot = slots_[number % capacity];
    slot.number.store(0, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    slot.begin_ns = nanoseconds(begin);
    slot.end_ns = nanoseconds(end);
    slot.step = step;
    slot.activity = static_cast<uint32_t>(activity);
    slot.detail = detail;
    slot.number.store(number + 1, std::memory_order_release);
  }

  /// As the file has it.
  struct Slot {
    std::atomic<uint64_t> number; ///< from 1 on; 0: it is being written
    uint64_t begin_ns;
    uint64_t end_ns;
    uint64_t step;
    uint32_t activity;
    uint32_t detail;
  };

private:
  static uint64_t nanoseconds(SteadyClock::time_point time) {
    using namespace std::chrono;
    return static_cast<uint64_t>(
      duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count());
  }

  void* memory_ = nullptr;
  std::atomic<uint64_t>* next_ = nullptr;
  Slot* slots_ = nullptr;
};

/// What one process of a role left.
struct Flight {
  std::string role;
  uint64_t process = 0;
  std::string host;
  /// What is added to its clock for Unix time, as when it began.
  int64_t to_unix_ns = 0;
  std::vector<Span> spans; ///< by their begin
};

/// Reads a file, which its process may be writing to. Spans that are half
/// written, or that no recorder writes, are left out.
/// Errors: InputError naming the file: it is none.
Flight read_flight(const std::string& path);

/// The flights of a folder, by role and process. Errors: as above; InputError
/// where there are none.
std::vector<Flight> read_flights(const std::string& folder);

/// Times what happens until it goes, for a recorder that may be null.
class SpanTimer {
public:
  SpanTimer(FlightRecorder* recorder, Activity activity, uint64_t step,
            uint32_t detail = 0)
    : recorder_(recorder), activity_(activity), step_(step), detail_(detail) {
    if (recorder_ != nullptr)
      begin_ = SteadyClock::now();
  }
  ~SpanTimer() {
    if (recorder_ != nullptr)
      recorder_->record(activity_, begin_, SteadyClock::now(), step_, detail_);
  }
  SpanTimer(const SpanTimer&) = delete;
  SpanTimer& operator=(const SpanTimer&) = delete;

private:
  FlightRecorder* recorder_;
  Activity activity_;
  uint64_t step_;
  uint32_t detail_;
  SteadyClock::time_point begin_;
};

} // namespace troupe
