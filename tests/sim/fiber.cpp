#include "tests/sim/fiber.hpp"

#include "tests/sim/runtime.hpp"

#include <utility>

namespace troupe::sim {

bool tasks_may_wait = false;

namespace {

#ifdef __SANITIZE_ADDRESS__
constexpr size_t stack_bytes = 1 << 20; // its frames are larger
#else
constexpr size_t stack_bytes = 256 << 10;
#endif
Fiber* current = nullptr;

/// Stacks are used again.
std::vector<std::vector<char>>& free_stacks() {
  static std::vector<std::vector<char>> stacks;
  return stacks;
}

std::vector<char> take_stack() {
  auto& stacks = free_stacks();
  if (stacks.empty())
    return std::vector<char>(stack_bytes);
  auto stack = std::move(stacks.back());
  stacks.pop_back();
  return stack;
}

} // namespace

Fiber::Fiber(uint32_t process, std::function<void()> task)
  : process_(process), task_(std::move(task)), stack_(take_stack()) {}

Fiber::~Fiber() {
  if (begun_ && !over_) {
    ends_ = true;
    run();
  }
  free_stacks().push_back(std::move(stack_));
}

Fiber* Fiber::running() {
  return current;
}

void Fiber::begin(std::function<void()> then) {
  then_ = std::move(then);
  getcontext(&own_);
  own_.uc_stack.ss_sp = stack_.data();
  own_.uc_stack.ss_size = stack_.size();
  own_.uc_link = nullptr;
  own_note_ = {stack_.data(), stack_.size()};
  makecontext(&own_, &Fiber::enter, 0);
  begun_ = true;
  go_on();
}

void Fiber::enter() {
  auto* self = current;
  note_arrival(self->own_note_, self->caller_note_);
  self->perform();
  note_switch(nullptr, self->caller_note_);
  swapcontext(&self->own_, &self->caller_);
}

void Fiber::perform() {
  try {
    task_();
  } catch (...) {
    failure_ = std::current_exception();
  }
  over_ = true;
}

void Fiber::run() {
  auto* before = std::exchange(current, this);
  StackNote fiber;
  note_switch(&caller_note_, own_note_);
  swapcontext(&caller_, &own_);
  note_arrival(caller_note_, fiber);
  current = before;
}

void Fiber::go_on() {
  ++turn_;
  const auto self = shared_from_this(); // what follows may let it go
  run();
  if (!over_)
    return;
  task_ = nullptr;
  if (failure_)
    std::rethrow_exception(std::exchange(failure_, nullptr));
  std::exchange(then_, nullptr)();
}

void Fiber::wake() {
  Runtime::get().in_process(process_, 0, weak_from_this(),
                            [this, turn = turn_] {
                              if (turn == turn_ && this != current && !over_)
                                go_on();
                            });
}

bool Fiber::wait_until(uint64_t time) {
  auto* self = current;
  if (self->ends_)
    return false;
  const auto turn = ++self->turn_;
  Runtime::get().at(time, [weak = self->weak_from_this(), turn] {
    const auto fiber = weak.lock();
    if (fiber && fiber->turn_ == turn)
      fiber->wake();
  });
  current = nullptr;
  note_switch(&self->own_note_, self->caller_note_);
  swapcontext(&self->own_, &self->caller_);
  note_arrival(self->own_note_, self->caller_note_);
  return !self->ends_;
}

} // namespace troupe::sim
