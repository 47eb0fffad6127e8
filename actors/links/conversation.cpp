#include "actors/links/conversation.hpp"

namespace troupe {

Conversation::Conversation(IoLoop& loop, std::unique_ptr<Handshake> handshake)
  : loop_(loop), handshake_(std::move(handshake)) {}

Conversation::~Conversation() {
  stop();
}

void Conversation::stop() {
  loop_.unwatch(std::exchange(watch_, 0));
  loop_.cancel(std::exchange(timer_, 0));
  loop_.cancel(std::exchange(start_, 0));
}

void Conversation::go(IoLoop::Clock::time_point deadline, Then then) {
  stop();
  then_ = std::move(then);
  gone_ = nullptr;
  timer_ = loop_.at(deadline, [this] {
    late_ = true;
    tell(Handshake::State::failed);
  });
  start_ = loop_.at(IoLoop::Clock::now(), [this] { advance(); });
}

void Conversation::rest(std::function<void()> gone) {
  stop();
  then_ = nullptr;
  gone_ = std::move(gone);
  watch(EPOLLRDHUP);
}

void Conversation::advance() {
  const auto state = step_(*handshake_);
  if (state == Handshake::State::waiting)
    watch(handshake_->wants());
  else
    tell(state);
}

void Conversation::watch(uint32_t events) {
  if (watch_ == 0)
    watch_ = loop_.watch(handshake_->descriptor(), events, [this](uint32_t) {
      if (then_) {
        advance();
        return;
      }
      stop();
      auto gone = std::move(gone_);
      gone();
    });
  else if (events != events_)
    loop_.rearm(watch_, events);
  events_ = events;
}

void Conversation::tell(Handshake::State state) {
  stop();
  auto then = std::move(then_);
  then_ = nullptr;
  then(state); // may end this object
}

const std::string& Conversation::failure() const {
  static const std::string late = "it did not answer in time";
  return late_ ? late : handshake_->failure();
}

std::unique_ptr<Handshake> Conversation::release() {
  stop();
  return std::move(handshake_);
}

} // namespace troupe
