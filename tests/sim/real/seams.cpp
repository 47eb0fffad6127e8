// What the actors' layer calls and the simulator answers in its own way:
// executors. Linked in place of the rooms' own.

#include "kernels/engine/executor.hpp"
#include "kernels/engine/parameter_gate.hpp"
#include "tests/sim/real/world.hpp"

#include <deque>

namespace troupe {
namespace {

constexpr uint64_t a_task[2] = {5, 120};
constexpr uint64_t a_computation[2] = {400, 3'000};

/// Thrown out of a task that would wait for something: it begins anew later.
struct NotYet {};

} // namespace

/// One task at a time, each after its time in the process that made it.
struct Executor::Impl {
  uint32_t process = real::World::get().spawning;
  bool computes = false;
  bool waits_for_brief = false; ///< as one that is always busy
  std::deque<std::function<void()>> tasks;
  std::shared_ptr<bool> lives = std::make_shared<bool>(true);

  void run_next() {
    auto& world = real::World::get();
    const auto& time = computes ? a_computation : a_task;
    world.in_process(process, world.random().between(time[0], time[1]),
                     [this, alive = std::weak_ptr{lives}] {
                       if (alive.expired())
                         return;
                       auto task = std::move(tasks.front());
                       tasks.pop_front();
                       try {
                         task();
                       } catch (const NotYet&) {
                         tasks.push_front(std::move(task));
                       }
                       if (!tasks.empty())
                         run_next();
                     });
  }
};

Executor::Executor(std::string name, uint32_t)
  : impl_(std::make_unique<Impl>()) {
  impl_->computes = name.starts_with("worker") || name.starts_with("stage")
                    || name.starts_with("tensor");
  impl_->waits_for_brief = real::World::get().random().chance(50);
}
Executor::~Executor() = default;

uint32_t Executor::threads() const {
  return 1;
}

void Executor::submit(std::function<void()> task, TaskSize size) {
  if (size == TaskSize::brief && !impl_->waits_for_brief
      && impl_->tasks.empty())
    return task();
  impl_->tasks.push_back(std::move(task));
  if (impl_->tasks.size() == 1)
    impl_->run_next();
}

size_t Executor::queued() const {
  return impl_->tasks.size();
}

void Executor::parallel_for(size_t items,
                            const std::function<void(size_t, uint32_t)>& body) {
  for (size_t item = 0; item < items; ++item)
    body(item, 0);
}

void ParameterGate::await(size_t parameter) {
  if (abandoned())
    throw PassAbandoned{};
  if (!open_[parameter])
    throw NotYet{};
}

} // namespace troupe
