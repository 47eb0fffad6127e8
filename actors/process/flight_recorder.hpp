#pragma once

#include "kernels/base/steady_clock.hpp"
#include "strategies/time_ledger.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
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
  update,           ///< a stage, or a tensor member
  data,             ///< a worker waits for samples; part of compute
  read,             ///< a reader reads and decodes what a worker asked for
  receive,          ///< a stage, or a tensor member, waits for what others send
};
inline constexpr size_t activities = 12;
const char* to_string(Activity activity);

/// From when to when a role did something.
struct Span {
  uint64_t begin_ns = 0; ///< of this host's steady clock
  uint64_t end_ns = 0;   ///< the same
  uint64_t step = 0;     ///< 0: of no step in particular
  Activity activity = Activity::compute;
  uint32_t detail = 0; ///< of a stage or member: virtual rank; else 0
};

/// Keeps a role's last spans in a file of fixed size: they are there after its
/// process was killed; and of those before, how long they took in all. Any
/// thread; a span costs a write of 40 bytes to memory of the system's. A file
/// that is truncated, or a disk that is full, costs the recording. (A mapped
/// file would cost the process.)
class FlightRecorder {
public:
  static constexpr uint64_t capacity = 1 << 15; ///< spans
  /// Of a role, kept in a folder; of those before it is known how long they
  /// took.
  static constexpr size_t earlier_lives = 2;

  /// Makes FOLDER/ROLE-PID.flight (or ROLE-PID.2.flight, … where another one
  /// has that name), and removes what more than `earlier_lives` of the role
  /// have left there. Errors: InputError naming the file.
  FlightRecorder(const std::string& folder, const std::string& role);
  ~FlightRecorder();
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

  void record(Activity activity, SteadyClock::time_point begin,
              SteadyClock::time_point end, uint64_t step,
              uint32_t detail = 0) noexcept;

  /// As the file has it.
  struct Slot {
    uint64_t number = 0; ///< from 1 on
    uint64_t begin_ns = 0;
    uint64_t end_ns = 0;
    uint64_t step = 0;
    uint32_t activity = 0;
    uint32_t detail = 0;
  };

private:
  void book(uint64_t first);

  int file_ = -1;
  std::atomic<uint64_t> next_{0};
  std::mutex booking_;
  std::optional<EarlierTime> earlier_; ///< of its clock
};

/// What one process of a role left.
struct Flight {
  std::string role;
  uint64_t process = 0;
  std::string host;
  /// What is added to its clock for Unix time, as when it began.
  int64_t to_unix_ns = 0;
  std::vector<Span> spans; ///< by their begin
  /// What came before, and maybe with the first of them, of its clock; nothing
  /// as long as all spans are there.
  std::optional<EarlierTime> earlier{};
  /// Of lives whose files were removed when it began, or before, and of what
  /// was between them: of Unix time.
  std::optional<EarlierTime> lives_before{};
};

/// What it did, as a ledger takes it; `added_ns` to its clock.
RoleLife life_of(const std::vector<Span>& spans, int64_t added_ns = 0);

/// Reads a file, which its process may be writing to. Spans that are half
/// written, or that no recorder writes, are left out.
/// Errors: InputError naming the file: it is none.
Flight read_flight(const std::string& path);

/// Adds to the Unix times that the bytes of a recorder's file have.
/// Errors: InputError naming `path`: they are none.
void add_to_unix_times(std::string& bytes, int64_t added_ns,
                       const std::string& path);

/// The newest `count` spans of a file at most, as read_flight() gives all of
/// them; reads no more than these and some numbers between.
Flight read_newest_spans(const std::string& path, size_t count);

/// The flights of a folder, by role and process, but for files that are none:
/// those are counted. Errors: InputError where there are no others.
struct Flights {
  std::vector<Flight> all;
  size_t passed_over = 0;
};
Flights read_flights(const std::string& folder);

/// A wait for samples that is shorter is part of computing.
inline constexpr std::chrono::milliseconds shortest_data_wait{1};

/// Times what happens until it goes, for a recorder that may be null; what is
/// over sooner than `shortest` is not recorded.
class SpanTimer {
public:
  SpanTimer(FlightRecorder* recorder, Activity activity, uint64_t step,
            uint32_t detail = 0, SteadyClock::duration shortest = {})
    : recorder_(recorder),
      activity_(activity),
      step_(step),
      detail_(detail),
      shortest_(shortest) {
    if (recorder_ != nullptr)
      begin_ = SteadyClock::now();
  }
  ~SpanTimer() {
    if (recorder_ == nullptr)
      return;
    if (const auto end = SteadyClock::now(); end - begin_ >= shortest_)
      recorder_->record(activity_, begin_, end, step_, detail_);
  }
  SpanTimer(const SpanTimer&) = delete;
  SpanTimer& operator=(const SpanTimer&) = delete;

private:
  FlightRecorder* recorder_;
  Activity activity_;
  uint64_t step_;
  uint32_t detail_;
  SteadyClock::duration shortest_;
  SteadyClock::time_point begin_;
};

} // namespace troupe
