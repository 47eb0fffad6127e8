// What replicas wait for and by: sockets, the kernel's queues of sleepers, the
// scheduler. Linked in place of the product's and of libc's, whose calls go
// through where no simulated task makes them.

#include "actors/sockets/socket.hpp"
#include "tests/sim/byte_links.hpp"
#include "tests/sim/fiber.hpp"

#include <dlfcn.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstdarg>
#include <ctime>
#include <thread>

namespace troupe::sim {
namespace {

/// A core that is given away is back after so long, in µs.
constexpr uint64_t others_turn[2] = {20, 200};
/// A sleeper looks again: nobody wakes it here.
constexpr uint64_t a_nap[2] = {50, 500};

template <class Function>
Function* of_libc(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

bool simulated() {
  return Fiber::running() != nullptr;
}

void wait_for(uint64_t time) {
  Fiber::wait_until(Runtime::get().now() + time);
}

int count_ready(ByteLinks& links, std::span<pollfd> ends) {
  int ready = 0;
  for (auto& end : ends) {
    end.revents = 0;
    if ((end.events & POLLIN) != 0 && links.is_readable(end.fd))
      end.revents |= POLLIN;
    if ((end.events & POLLOUT) != 0 && links.is_writable(end.fd))
      end.revents |= POLLOUT;
    ready += end.revents != 0 ? 1 : 0;
  }
  return ready;
}

} // namespace
} // namespace troupe::sim

using namespace troupe;

extern "C" {

int poll(pollfd* ends, nfds_t count, int timeout_ms) {
  if (!sim::simulated()) {
    static auto* const real = sim::of_libc<int(pollfd*, nfds_t, int)>("poll");
    return real(ends, count, timeout_ms);
  }
  auto* links = sim::ByteLinks::find();
  if (links == nullptr) // its world is over
    return 0;
  auto& runtime = sim::Runtime::get();
  // Who asks without waiting turns: time goes on meanwhile.
  const auto until =
    runtime.now()
    + std::max<uint64_t>(5, 1'000
                              * static_cast<uint64_t>(std::max(0, timeout_ms)));
  for (;;) {
    const auto ready = sim::count_ready(*links, {ends, count});
    if (ready > 0 || runtime.now() >= until
        || !sim::ByteLinks::wait_until(until))
      return ready;
  }
}

int sched_yield() noexcept {
  if (sim::simulated())
    sim::wait_for(sim::Runtime::get().random().between(sim::others_turn[0],
                                                       sim::others_turn[1]));
  return 0;
}

long syscall(long number, ...) noexcept {
  va_list list;
  va_start(list, number);
  long arguments[6];
  for (auto& x : arguments)
    x = va_arg(list, long);
  va_end(list);
  if (number == SYS_futex && sim::simulated()) {
    if ((arguments[1] & FUTEX_CMD_MASK) == FUTEX_WAIT)
      sim::wait_for(
        sim::Runtime::get().random().between(sim::a_nap[0], sim::a_nap[1]));
    return 0;
  }
  static auto* const real = sim::of_libc<long(long, ...)>("syscall");
  return real(number, arguments[0], arguments[1], arguments[2], arguments[3],
              arguments[4], arguments[5]);
}
}

/// So that members turn before they sleep, or do not, on any machine alike.
unsigned std::thread::hardware_concurrency() noexcept {
  return 2;
}

namespace troupe {

LinkSocket::LinkSocket(int descriptor, ssl_st*)
  : descriptor_(descriptor), session_(nullptr) {}

LinkSocket::~LinkSocket() {
  if (auto* links = sim::ByteLinks::find())
    links->close(descriptor_);
}

LinkSocket::Io LinkSocket::send(std::span<const iovec> pieces) {
  if (sim::ByteLinks::find() == nullptr)
    return {0, true};
  const auto io = sim::ByteLinks::find()->send(descriptor_, pieces);
  return {io.bytes, io.down};
}

LinkSocket::Io LinkSocket::receive(void* into, size_t size) {
  if (sim::ByteLinks::find() == nullptr)
    return {0, true};
  const auto io = sim::ByteLinks::find()->receive(descriptor_, into, size);
  return {io.bytes, io.down};
}

void LinkSocket::keep_queue_short() {}

void LinkSocket::cut() {
  if (auto* links = sim::ByteLinks::find())
    links->cut(descriptor_);
}

} // namespace troupe
