#include "actors/links/echo.hpp"

#include "actors/links/cable.hpp"

#include <cstdint>
#include <utility>

namespace troupe {
namespace {

/// Of a place, so that what is lost, doubled or moved is noticed.
char byte_at(size_t place) {
  return static_cast<char>((place * 2'654'435'761U) >> 7);
}

} // namespace

Echo::Echo(IoLoop& loop, std::unique_ptr<LinkSocket> socket, Side side,
           IoLoop::Clock::time_point deadline,
           std::function<void(bool all)> done)
  : loop_(loop),
    socket_(std::move(socket)),
    side_(side),
    done_(std::move(done)),
    sends_(side == Side::asks),
    bytes_(echo_bytes) {
  for (size_t i = 0; i < bytes_.size() && sends_; ++i)
    bytes_[i] = byte_at(i);
  timer_ = loop_.at(deadline, [this] { tell(false); });
  start_ = loop_.at(IoLoop::Clock::now(), [this] {
    watch();
    advance();
  });
}

Echo::~Echo() {
  stop();
}

void Echo::stop() {
  loop_.unwatch(std::exchange(watch_, 0));
  loop_.cancel(std::exchange(timer_, 0));
  loop_.cancel(std::exchange(start_, 0));
}

void Echo::watch() {
  const uint32_t events = sends_ ? EPOLLOUT : EPOLLIN;
  if (watch_ == 0)
    watch_ = loop_.watch(socket_->descriptor(), events,
                         [this](uint32_t) { advance(); });
  else
    loop_.rearm(watch_, events);
}

void Echo::advance() {
  for (;;) {
    const auto rest = bytes_.size() - moved_;
    if (rest == 0) {
      if (sends_ == (side_ == Side::answers)) {
        bool all = true;
        for (size_t i = 0; i < bytes_.size(); ++i)
          all = all && bytes_[i] == byte_at(i);
        tell(all);
        return;
      }
      sends_ = !sends_;
      moved_ = 0;
      watch();
      continue;
    }
    const iovec piece{bytes_.data() + moved_, rest};
    const auto io = sends_ ? socket_->send({&piece, 1})
                           : socket_->receive(piece.iov_base, rest);
    moved_ += io.bytes;
    if (io.down) {
      tell(false);
      return;
    }
    if (io.bytes == 0)
      return;
  }
}

void Echo::tell(bool all) {
  stop();
  if (!all) // the system would go on trying, for minutes
    reset_cable(socket_->descriptor());
  auto done = std::move(done_);
  done_ = nullptr;
  done(all); // may end this object
}

} // namespace troupe
