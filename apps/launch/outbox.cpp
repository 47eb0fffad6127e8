#include "apps/launch/outbox.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

namespace troupe {

Outbox::Outbox(Descriptor pipe)
  : pipe_(std::move(pipe)), wake_(::eventfd(0, EFD_CLOEXEC)) {
  ::fcntl(pipe_.get(), F_SETFL, O_NONBLOCK);
  thread_ = std::thread{[this] { run(); }};
}

Outbox::~Outbox() {
  {
    const std::lock_guard guard{mutex_};
    over_ = true;
    changed_.notify_all();
  }
  const uint64_t one = 1;
  [[maybe_unused]] auto ignored = ::write(wake_.get(), &one, sizeof one);
  thread_.join();
}

void Outbox::put(std::string text) {
  put(std::make_shared<const std::string>(std::move(text)));
}

void Outbox::put(std::shared_ptr<const std::string> text) {
  const std::lock_guard guard{mutex_};
  texts_.push_back(std::move(text));
  changed_.notify_all();
}

bool Outbox::drain(std::chrono::milliseconds deadline) {
  std::unique_lock guard{mutex_};
  return changed_.wait_for(guard, deadline, [&] { return texts_.empty(); });
}

void Outbox::run() {
  sigset_t pipe; // that nobody reads any more is said by write()
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
  std::unique_lock guard{mutex_};
  bool read_on = true;
  for (;;) {
    changed_.wait(guard, [&] { return over_ || !texts_.empty(); });
    if (over_)
      return;
    const auto text = texts_.front();
    guard.unlock();
    read_on = read_on && write(*text);
    guard.lock();
    texts_.pop_front();
    changed_.notify_all();
  }
}

/// Returns false where nobody reads any more, or this is to end.
bool Outbox::write(const std::string& text) {
  for (size_t done = 0; done < text.size();) {
    const auto count = ::write(pipe_.get(), text.data() + done,
                               text.size() - done);
    if (count > 0) {
      done += static_cast<size_t>(count);
    } else if (errno == EAGAIN || errno == EINTR) {
      std::array<pollfd, 2> polled{pollfd{pipe_.get(), POLLOUT, 0},
                                   pollfd{wake_.get(), POLLIN, 0}};
      ::poll(polled.data(), polled.size(), -1);
      if (polled[1].revents != 0)
        return false;
    } else {
      return false;
    }
  }
  return true;
}

} // namespace troupe
