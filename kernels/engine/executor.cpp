#include "kernels/engine/executor.hpp"

#include "kernels/base/require.hpp"
#include "kernels/engine/replica.hpp"

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace troupe {

using Body = std::function<void(size_t, uint32_t)>;

/// Waits sleep at once. Spinning first (25 or 75 µs, in the lead for the end of
/// a round, in the others for the next one) gained nothing that could be told
/// from noise on two free cores, and with two executors of two threads each on
/// them a round of 1.6 ms took 8 to 12 % longer.
struct Executor::Impl {
  explicit Impl(std::string name) : name_(std::move(name)) {}

  void start(uint32_t threads) {
    threads_.reserve(threads);
    try {
      // No task can come before the constructor returns, so nobody reads
      // threads_ while it grows.
      threads_.emplace_back([this] { lead(); });
      for (uint32_t thread = 1; thread < threads; ++thread)
        threads_.emplace_back([this, thread] { follow(thread); });
    } catch (...) { // the system has no thread left
      stop();
      throw;
    }
  }

  void stop() {
    for (const auto& thread : threads_)
      kernels::require(thread.get_id() != std::this_thread::get_id(),
                       "an executor destroyed by its own task");
    std::deque<std::function<void()>> dropped;
    {
      std::unique_lock lock(mutex_);
      stopping_ = true;
      dropped.swap(queue_);
    }
    task_ready_.notify_all();
    work_ready_.notify_all();
    dropped.clear(); // outside the lock: what a task holds may use it
    for (auto& thread : threads_)
      thread.join();
  }

  // -- the lead thread --------------------------------------------------------

  void lead() {
    enter(0);
    std::unique_lock lock(mutex_);
    for (;;) {
      task_ready_.wait(lock, [this] {
        return stopping_ || (idle() && !queue_.empty());
      });
      if (stopping_)
        return;
      auto task = std::move(queue_.front());
      queue_.pop_front();
      runner_ = std::this_thread::get_id();
      lock.unlock();
      task();
      task = nullptr;
      lock.lock();
      runner_ = {};
    }
  }

  // -- whoever submits --------------------------------------------------------

  /// Takes the place of the lead thread where that has nothing to do.
  bool become_runner() {
    std::unique_lock lock(mutex_);
    if (stopping_ || !idle() || !queue_.empty())
      return false;
    runner_ = std::this_thread::get_id();
    return true;
  }

  void be_runner_no_more() {
    std::unique_lock lock(mutex_);
    runner_ = {};
    if (queue_.empty())
      return;
    lock.unlock();
    task_ready_.notify_one();
  }

  void run_here(const std::function<void()>& task) {
    struct Turn {
      Impl& impl;
      ~Turn() { impl.be_runner_no_more(); }
    } turn{*this};
    prepare_compute_thread();
    task();
  }

  void spread(size_t items, const Body& body) {
    require_runner();
    if (items == 0)
      return;
    if (threads_.size() == 1 || items == 1) {
      for (size_t item = 0; item < items; ++item)
        body(item, 0);
      return;
    }
    std::unique_lock lock(mutex_);
    body_ = &body;
    items_ = items;
    next_ = 0;
    ++round_;
    ++running_;
    lock.unlock();
    work_ready_.notify_all();
    work(lock, 0);
    work_done_.wait(lock, [this] { return running_ == 0; });
    body_ = nullptr;
    if (auto failure = std::exchange(failure_, nullptr)) {
      lock.unlock();
      std::rethrow_exception(failure);
    }
  }

  // -- the other threads ------------------------------------------------------

  void follow(uint32_t thread) {
    enter(thread);
    std::unique_lock lock(mutex_);
    uint64_t seen = 0;
    for (;;) {
      work_ready_.wait(lock, [&] { return stopping_ || round_ != seen; });
      if (stopping_)
        return;
      seen = round_;
      if (body_ == nullptr)
        continue; // the others have done it all
      ++running_;
      lock.unlock();
      work(lock, thread);
    }
  }

  /// Claims items until none is left; returns with the lock held. The caller
  /// has entered the round, so nobody begins the next one meanwhile.
  void work(std::unique_lock<std::mutex>& lock, uint32_t thread) {
    std::exception_ptr failure;
    try {
      for (size_t item; (item = next_.fetch_add(1)) < items_;)
        (*body_)(item, thread);
    } catch (...) {
      failure = std::current_exception();
      next_ = items_; // the rest is not begun
    }
    lock.lock();
    if (failure && !failure_)
      failure_ = std::move(failure);
    if (--running_ == 0)
      work_done_.notify_one();
  }

  void enter(uint32_t thread) {
    auto name = thread == 0 ? name_ : name_ + "." + std::to_string(thread);
    // Linux takes 15 characters; the end says more than the beginning.
    if (name.size() > 15)
      name.erase(0, name.size() - 15);
    pthread_setname_np(pthread_self(), name.c_str());
    prepare_compute_thread();
  }

  /// Under the lock.
  bool idle() const { return runner_ == std::thread::id{}; }

  /// Its own thread's id is in runner_ as long as a task runs on it.
  void require_runner() {
    std::unique_lock lock(mutex_);
    kernels::require(runner_ == std::this_thread::get_id(),
                     "parallel_for called from outside a task");
  }

  std::string name_;
  std::mutex mutex_;
  std::condition_variable task_ready_;
  std::condition_variable work_ready_;
  std::condition_variable work_done_;
  std::deque<std::function<void()>> queue_;
  std::thread::id runner_; ///< whose task runs; none's: nothing does
  const Body* body_ = nullptr;
  size_t items_ = 0;
  std::atomic<size_t> next_ = 0;
  uint32_t running_ = 0;
  uint64_t round_ = 0;
  std::exception_ptr failure_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

Executor::Executor(std::string name, uint32_t threads)
  : impl_(std::make_unique<Impl>(std::move(name))) {
  kernels::require(threads > 0, "an executor without threads");
  impl_->start(threads);
}

Executor::~Executor() {
  impl_->stop();
}

uint32_t Executor::threads() const {
  return static_cast<uint32_t>(impl_->threads_.size());
}

void Executor::submit(std::function<void()> task, TaskSize size) {
  if (size == TaskSize::brief && impl_->become_runner()) {
    impl_->run_here(task);
    return;
  }
  {
    std::unique_lock lock(impl_->mutex_);
    impl_->queue_.push_back(std::move(task));
  }
  impl_->task_ready_.notify_one();
}

size_t Executor::queued() const {
  std::unique_lock lock(impl_->mutex_);
  return impl_->queue_.size();
}

void Executor::parallel_for(size_t items, const Body& body) {
  impl_->spread(items, body);
}

} // namespace troupe
