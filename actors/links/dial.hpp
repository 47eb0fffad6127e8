#pragma once

#include "actors/links/conversation.hpp"
#include "actors/links/hello.hpp"

#include <functional>
#include <memory>
#include <string>

namespace troupe {

/// Whom to reach, over what, and what to say there.
struct DialOrder {
  LinkEndpoint to;
  std::string whom;   ///< for people
  bool local = false; ///< by the socket of this host
  /// HOST:PORT of a proxy for tests, which is told where to lead; empty: none.
  std::string proxy{};
  LinkHello hello;
  std::vector<Descriptor> passed{}; ///< go with the hello
  IoLoop::Clock::time_point deadline;
};

/// Whoever answered, or one line that says why nobody did.
struct Dialed {
  std::string error;
  LinkWelcome welcome;
  std::unique_ptr<Handshake> handshake;
};

/// Connects to another process's links and greets; tries again when the
/// connection breaks on the way. On the loop's thread; its end gives it up.
class Dial {
public:
  /// Completion: then() once, not before the constructor has returned, at the
  /// deadline at the latest; it may end the dial. `tls` may be null for a local
  /// one.
  Dial(IoLoop& loop, const TlsContext* tls, DialOrder order,
       std::function<void(Dialed)> then);
  ~Dial();
  Dial(const Dial&) = delete;
  Dial& operator=(const Dial&) = delete;

  /// What it is waiting for, for people.
  std::string waits_for() const;

private:
  void attempt();
  void retry(const std::string& why);
  void greet();
  void on_answer();
  void fail(const std::string& why);
  void tell(Dialed outcome);

  IoLoop& loop_;
  const TlsContext* tls_;
  DialOrder order_;
  std::function<void(Dialed)> then_;
  std::unique_ptr<Conversation> conversation_;
  uint64_t pause_ = 0;
  std::string last_failure_;
};

} // namespace troupe
