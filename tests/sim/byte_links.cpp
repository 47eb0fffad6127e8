#include "tests/sim/byte_links.hpp"

#include "tests/sim/delays.hpp"
#include "tests/sim/fiber.hpp"

#include <sys/uio.h>

#include <algorithm>
#include <cstring>

namespace troupe::sim {
namespace {

ByteLinks* running = nullptr;
/// No descriptor of the system's.
constexpr int first_descriptor = 1 << 20;
/// Of one direction, on the way and not read.
constexpr size_t capacity = 4 << 10;
constexpr uint32_t pieces_percent = 5;

} // namespace

ByteLinks::ByteLinks() : next_(first_descriptor) {
  running = this;
}

ByteLinks::~ByteLinks() {
  if (running == this)
    running = nullptr;
}

ByteLinks* ByteLinks::find() {
  return running;
}

std::pair<int, int> ByteLinks::connect(uint32_t a, uint32_t b) {
  const auto first = next_++;
  const auto second = next_++;
  ends_[first].process = a;
  ends_[first].other = second;
  ends_[second].process = b;
  ends_[second].other = first;
  return {first, second};
}

void ByteLinks::wake(uint32_t process) {
  if (auto found = waiting_.find(process); found != waiting_.end())
    if (auto fiber = found->second.lock())
      fiber->wake();
}

bool ByteLinks::wait_until(uint64_t time) {
  auto* fiber = Fiber::running();
  if (running != nullptr)
    running->waiting_[fiber->process()] = fiber->weak_from_this();
  const bool goes_on = Fiber::wait_until(time);
  if (running != nullptr)
    running->waiting_.erase(fiber->process());
  return goes_on;
}

// --- bytes ------------------------------------------------------------------

ByteLinks::Io ByteLinks::send(int end, std::span<const iovec> pieces) {
  auto& own = at(end);
  if (own.ended || own.over)
    return {0, true};
  auto& other = at(own.other);
  auto room = capacity - std::min(capacity, other.inbox.size() + other.on_way);
  auto& runtime = Runtime::get();
  auto& draw = runtime.random();
  if (room > 1 && draw.chance(pieces_percent))
    room = 1 + draw.below(room);
  std::string bytes;
  for (const auto& piece : pieces) {
    const auto count = std::min(piece.iov_len, room - bytes.size());
    bytes.append(static_cast<const char*>(piece.iov_base), count);
  }
  if (bytes.empty())
    return {};
  other.on_way += bytes.size();
  ++under_way_;
  const auto arrives = other.stream.take(
    runtime.arrival(own.process, other.process), std::nullopt);
  runtime.at(arrives, [this, to = own.other, bytes,
                       generation = other.stream.generation] {
    --under_way_;
    auto& there = at(to);
    if (there.lost)
      return;
    there.on_way -= bytes.size();
    if (there.open)
      there.inbox += bytes;
    wake(there.process);
  });
  return {bytes.size(), false};
}

ByteLinks::Io ByteLinks::receive(int end, void* into, size_t size) {
  auto& own = at(end);
  const auto count = std::min(size, own.inbox.size());
  if (count == 0)
    return {0, own.ended || own.over};
  std::memcpy(into, own.inbox.data(), count);
  own.inbox.erase(0, count);
  wake(at(own.other).process); // there is room again
  return {count, false};
}

bool ByteLinks::is_readable(int end) {
  const auto& own = at(end);
  return !own.inbox.empty() || own.ended || own.over;
}

bool ByteLinks::is_writable(int end) {
  const auto& own = at(end);
  const auto& other = at(own.other);
  return own.ended || own.over || other.inbox.size() + other.on_way < capacity;
}

// --- their end --------------------------------------------------------------

void ByteLinks::watch(int end, std::function<void()> down) {
  at(end).watch = std::move(down);
}

void ByteLinks::heard_end(int end) {
  auto& own = at(end);
  if (std::exchange(own.over, true))
    return;
  wake(own.process);
  if (own.open && !own.ended && own.watch)
    std::exchange(own.watch, nullptr)();
}

/// Once what was sent before has arrived, or is lost.
void ByteLinks::say_end(int to, bool loses) {
  auto& runtime = Runtime::get();
  auto& there = at(to);
  auto last = runtime.now();
  if (loses)
    there.lost = true;
  else
    last = there.stream.take(
      runtime.arrival(at(there.other).process, there.process), std::nullopt);
  runtime.at(last + runtime.random().between(end_notice[0], end_notice[1]),
             [this, to] { heard_end(to); });
}

void ByteLinks::cut(int end) {
  auto& own = at(end);
  if (std::exchange(own.ended, true))
    return;
  wake(own.process);
  auto& runtime = Runtime::get();
  say_end(own.other,
          !runtime.alive(own.process) && runtime.random().chance(50));
}

void ByteLinks::close(int end) {
  cut(end);
  auto& own = at(end);
  own.open = false;
  own.watch = nullptr;
  own.inbox.clear();
}

size_t ByteLinks::cut_between(uint32_t a, uint32_t b) {
  size_t count = 0;
  for (auto& [end, own] : ends_) {
    const auto to = at(own.other).process;
    if (own.ended || own.over || own.process != a || to != b)
      continue;
    say_end(end, true);
    say_end(own.other, true);
    ++count;
  }
  return count;
}

void ByteLinks::ended(uint32_t process) {
  waiting_.erase(process);
  for (auto& [end, own] : ends_) {
    if (own.process != process || std::exchange(own.ended, true))
      continue;
    own.open = false;
    own.watch = nullptr;
    say_end(own.other, Runtime::get().random().chance(50));
  }
}

} // namespace troupe::sim
