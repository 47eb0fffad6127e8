#pragma once

#include "actors/links/handshake.hpp"
#include "actors/sockets/io_loop.hpp"

#include <functional>
#include <memory>

namespace troupe {

/// Carries a handshake on along an IoLoop, on its thread, one greeting at a
/// time. Its end forgets what is under way; it may be ended in its callbacks.
class Conversation {
public:
  using Then = std::function<void(Handshake::State)>;
  /// Takes the handshake's next step, and may refuse to: `failed`.
  using Step = std::function<Handshake::State(Handshake&)>;

  Conversation(IoLoop& loop, std::unique_ptr<Handshake> handshake);
  ~Conversation();
  Conversation(const Conversation&) = delete;
  Conversation& operator=(const Conversation&) = delete;

  /// Sends the greeting that is queued, or else receives the peer's, then calls
  /// then(): not before go() has returned; `failed` at the deadline.
  void go(IoLoop::Clock::time_point deadline, Then then);
  /// Who takes each step from now on, in place of Handshake::advance().
  void let_step(Step step) { step_ = std::move(step); }
  /// Reads nothing; calls gone() when the peer closes the connection.
  void rest(std::function<void()> gone);

  Handshake& handshake() { return *handshake_; }
  /// Why it failed.
  const std::string& failure() const;
  /// Ends the watch.
  std::unique_ptr<Handshake> release();

private:
  void advance();
  void watch(uint32_t events);
  void stop();
  void tell(Handshake::State state);

  IoLoop& loop_;
  std::unique_ptr<Handshake> handshake_;
  Then then_;
  Step step_ = [](Handshake& handshake) { return handshake.advance(); };
  std::function<void()> gone_;
  uint64_t watch_ = 0;
  uint32_t events_ = 0;
  uint64_t timer_ = 0;
  uint64_t start_ = 0;
  bool late_ = false;
};

} // namespace troupe
