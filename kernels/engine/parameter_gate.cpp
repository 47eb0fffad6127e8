#include "kernels/engine/parameter_gate.hpp"

namespace troupe {

// Nothing but this: where time is virtual, another is linked in its place.
void ParameterGate::await(size_t parameter) {
  if (whole_.load(std::memory_order_acquire))
    return;
  std::unique_lock lock{mutex_};
  if (!abandoned_ && !open_[parameter]) {
    const auto begin = Clock::now();
    if (waiting_++ == 0)
      since_ = begin;
    if (!changed_.wait_until(lock, begin + patience_,
                             [&] { return abandoned_ || open_[parameter]; }))
      abandoned_ = true; // for all of the pass, whichever thread it is on
    if (--waiting_ == 0)
      waited_ += Clock::now() - since_;
    else if (abandoned_)
      changed_.notify_all();
  }
  if (abandoned_)
    throw PassAbandoned{};
}

} // namespace troupe
