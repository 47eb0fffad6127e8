#include "actors/compute/parked_pass.hpp"

#include "kernels/base/require.hpp"
#include "kernels/engine/parameter_gate.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

void ParkedPass::begin(std::function<void()> pass) {
  kernels::require(state_ == State::ended, "a pass that is under way");
  thread_ = std::thread{[this, pass = std::move(pass)] {
    {
      std::unique_lock lock{mutex_};
      changed_.wait(lock, [this] { return state_ == State::running; });
    }
    try {
      pass();
    } catch (const PassAbandoned&) { // nobody asks for more
    } catch (...) {
      failure_ = std::current_exception();
    }
    come_to(State::ended);
  }};
  come_to(State::running);
  await_stop();
}

void ParkedPass::go_on(const RankShare& sum) {
  kernels::require(waits(), "no pass that waits for a sum");
  sum_ = sum;
  come_to(State::running);
  await_stop();
}

void ParkedPass::abandon() {
  if (!waits())
    return;
  come_to(State::abandoned);
  thread_.join();
}

/// On the pass's thread.
uint64_t ParkedPass::sum(double* values, size_t count, uint64_t rows) {
  share_ = {{values, values + count}, rows};
  come_to(State::parked);
  std::unique_lock lock{mutex_};
  changed_.wait(lock, [this] { return state_ != State::parked; });
  if (state_ == State::abandoned)
    throw PassAbandoned{};
  kernels::require(sum_.values.size() == count, "a sum of another operator");
  std::ranges::copy(sum_.values, values);
  return sum_.rows;
}

void ParkedPass::come_to(State state) {
  const std::lock_guard lock{mutex_};
  state_ = state;
  changed_.notify_all();
}

void ParkedPass::await_stop() {
  {
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [this] { return state_ != State::running; });
  }
  if (waits())
    return;
  thread_.join();
  if (failure_)
    std::rethrow_exception(std::exchange(failure_, nullptr));
}

} // namespace troupe
