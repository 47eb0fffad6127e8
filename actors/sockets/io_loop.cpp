#include "actors/sockets/io_loop.hpp"

#include "actors/sockets/descriptor.hpp"
#include "kernels/base/error.hpp"
#include "kernels/base/require.hpp"

#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace troupe {
namespace {

constexpr int events_per_turn = 64;
constexpr uint64_t wake_id = 0;

} // namespace

struct IoLoop::Impl {
  struct Watch {
    int descriptor;
    std::shared_ptr<Handler> handler; ///< shared: it may unwatch itself
  };

  Descriptor epoll{epoll_create1(EPOLL_CLOEXEC)};
  Descriptor wake{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::unordered_map<uint64_t, Watch> watches;
  std::map<std::pair<Clock::time_point, uint64_t>, Task> timers;
  std::unordered_map<uint64_t, Clock::time_point> times;
  uint64_t last_id = wake_id;

  std::mutex mutex;
  std::vector<Task> posted;
  bool stopping = false;
  std::thread thread;

  Impl() {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = wake_id;
    if (!epoll || !wake
        || epoll_ctl(epoll.get(), EPOLL_CTL_ADD, wake.get(), &event) != 0)
      throw InputError(std::string{"links: cannot watch descriptors: "}
                       + std::strerror(errno) + "; see ulimit -n");
    thread = std::thread{[this] { run(); }};
  }

  void poke() {
    const uint64_t one = 1;
    [[maybe_unused]] auto ignored = write(wake.get(), &one, sizeof one);
  }

  int wait_ms() const {
    if (timers.empty())
      return -1;
    const auto left = timers.begin()->first.first - Clock::now();
    const auto ms = std::chrono::ceil<std::chrono::milliseconds>(left).count();
    return static_cast<int>(std::clamp<int64_t>(ms, 0, 60'000));
  }

  void run() {
    std::array<epoll_event, events_per_turn> events;
    for (;;) {
      const auto count = epoll_wait(epoll.get(), events.data(), events_per_turn,
                                    wait_ms());
      kernels::require(count >= 0 || errno == EINTR, "epoll_wait failed");
      for (int i = 0; i < count; ++i)
        handle(events[i]);
      run_timers();
      if (!run_posted())
        return;
    }
  }

  void handle(const epoll_event& event) {
    if (event.data.u64 == wake_id) {
      uint64_t ignored = 0;
      [[maybe_unused]] auto got = read(wake.get(), &ignored, sizeof ignored);
      return;
    }
    // An id that an earlier handler of this turn has unwatched is not found.
    auto found = watches.find(event.data.u64);
    if (found == watches.end())
      return;
    auto handler = found->second.handler;
    (*handler)(event.events);
  }

  void run_timers() {
    const auto now = Clock::now();
    while (!timers.empty() && timers.begin()->first.first <= now) {
      auto first = timers.extract(timers.begin());
      times.erase(first.key().second);
      first.mapped()();
    }
  }

  bool run_posted() {
    std::vector<Task> tasks;
    bool last = false;
    {
      std::lock_guard lock{mutex};
      tasks.swap(posted);
      last = stopping;
    }
    for (auto& task : tasks)
      task();
    return !last;
  }
};

IoLoop::IoLoop() : impl_(std::make_unique<Impl>()) {}

IoLoop::~IoLoop() {
  stop();
}

bool IoLoop::post(Task task) {
  {
    std::lock_guard lock{impl_->mutex};
    if (impl_->stopping)
      return false;
    impl_->posted.push_back(std::move(task));
  }
  impl_->poke();
  return true;
}

bool IoLoop::on_own_thread() const {
  return std::this_thread::get_id() == impl_->thread.get_id();
}

void IoLoop::stop() {
  {
    std::lock_guard lock{impl_->mutex};
    impl_->stopping = true;
  }
  impl_->poke();
  if (impl_->thread.joinable())
    impl_->thread.join();
  // What handlers own may unwatch as it goes.
  auto watches = std::exchange(impl_->watches, {});
  auto timers = std::exchange(impl_->timers, {});
}

uint64_t IoLoop::watch(int descriptor, uint32_t events, Handler handler) {
  const auto id = ++impl_->last_id;
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  kernels::require(
    epoll_ctl(impl_->epoll.get(), EPOLL_CTL_ADD, descriptor, &event) == 0,
    "a descriptor cannot be watched");
  impl_->watches.emplace(
    id, Impl::Watch{descriptor, std::make_shared<Handler>(std::move(handler))});
  return id;
}

void IoLoop::rearm(uint64_t watch, uint32_t events) {
  auto found = impl_->watches.find(watch);
  if (found == impl_->watches.end())
    return;
  epoll_event event{};
  event.events = events;
  event.data.u64 = watch;
  epoll_ctl(impl_->epoll.get(), EPOLL_CTL_MOD, found->second.descriptor,
            &event);
}

void IoLoop::unwatch(uint64_t watch) {
  auto found = impl_->watches.find(watch);
  if (found == impl_->watches.end())
    return;
  epoll_ctl(impl_->epoll.get(), EPOLL_CTL_DEL, found->second.descriptor,
            nullptr);
  impl_->watches.erase(found);
}

uint64_t IoLoop::at(Clock::time_point when, Task task) {
  const auto id = ++impl_->last_id;
  impl_->timers.emplace(std::pair{when, id}, std::move(task));
  impl_->times.emplace(id, when);
  return id;
}

void IoLoop::cancel(uint64_t timer) {
  auto found = impl_->times.find(timer);
  if (found == impl_->times.end())
    return;
  impl_->timers.erase({found->second, timer});
  impl_->times.erase(found);
}

} // namespace troupe
