#include "actors/stores/fetch_pool.hpp"

#include "kernels/base/steady_clock.hpp"

#include <chrono>
#include <system_error>
#include <utility>

namespace troupe {

namespace {

/// What nobody has taken by then is not wanted any more: ranks have moved.
constexpr auto forgotten_after = std::chrono::seconds{30};

} // namespace

FetchPool::FetchPool(uint32_t threads, uint64_t max_bytes)
  : max_threads_(threads), max_bytes_(max_bytes) {}

FetchPool::~FetchPool() {
  {
    const std::lock_guard guard{mutex_};
    ending_ = true;
    wanted_.notify_all();
  }
  for (auto& thread : threads_)
    thread.join();
}

void FetchPool::forget(Parts::iterator at) {
  held_ -= at->second->bytes;
  parts_.erase(at);
}

void FetchPool::drop_forgotten() {
  const auto now = SteadyClock::now();
  for (auto at = parts_.begin(); at != parts_.end();) {
    const auto here = at++;
    if (here->second->state == State::done
        && now - here->second->done_at > forgotten_after)
      forget(here);
  }
}

void FetchPool::begin(const std::string& key, uint64_t bytes, Fetch fetch) {
  const std::lock_guard guard{mutex_};
  if (ending_ || parts_.contains(key))
    return;
  if (held_ + bytes > max_bytes_)
    drop_forgotten();
  if (held_ + bytes > max_bytes_)
    return;
  auto part = std::make_shared<Part>();
  part->bytes = bytes;
  part->fetch = std::move(fetch);
  parts_.emplace(key, std::move(part));
  waiting_.push_back(key);
  held_ += bytes;
  want_thread();
}

/// For what was begun last. Those that are idle may be on their way to what was
/// begun before; where there can be no other thread, who takes it fetches it.
void FetchPool::want_thread() {
  if (waiting_.size() <= idle_ || threads_.size() >= max_threads_) {
    wanted_.notify_one();
    return;
  }
  try {
    threads_.emplace_back([this] { work(); });
  } catch (const std::system_error&) {
    wanted_.notify_one();
  }
}

/// Fetches without the lock; the part is done with it.
void FetchPool::run(std::unique_lock<std::mutex>& lock, Part& part,
                    const Fetch& fetch) {
  part.state = State::running;
  part.error = nullptr;
  lock.unlock();
  Bytes result;
  std::exception_ptr error;
  try {
    result = std::make_shared<const std::vector<std::byte>>(fetch());
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  part.result = std::move(result);
  part.error = error;
  part.state = State::done;
  part.done_at = SteadyClock::now();
  finished_.notify_all();
}

void FetchPool::work() {
  std::unique_lock lock{mutex_};
  while (true) {
    ++idle_;
    wanted_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
    --idle_;
    if (ending_)
      return;
    const auto key = std::move(waiting_.front());
    waiting_.pop_front();
    const auto at = parts_.find(key);
    if (at == parts_.end() || at->second->state != State::waiting)
      continue;
    const auto part = at->second;
    const auto fetch = std::move(part->fetch);
    run(lock, *part, fetch);
  }
}

FetchPool::Bytes FetchPool::take(const std::string& key, const Fetch& fetch) {
  std::unique_lock lock{mutex_};
  auto at = parts_.find(key);
  if (at == parts_.end())
    at = parts_.emplace(key, std::make_shared<Part>()).first;
  const auto part = at->second;
  const bool failed = part->state == State::done && part->error;
  if (part->state == State::waiting || failed)
    run(lock, *part, fetch);
  else // its fetch has a deadline, and ends with the process
    finished_.wait(lock, [&] { return part->state == State::done; });
  if (const auto now = parts_.find(key);
      now != parts_.end() && now->second == part)
    forget(now);
  if (part->error)
    std::rethrow_exception(part->error);
  return part->result;
}

} // namespace troupe
