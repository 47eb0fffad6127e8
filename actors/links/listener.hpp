#pragma once

#include "actors/links/conversation.hpp"
#include "actors/links/hello.hpp"
#include "actors/sockets/door_budget.hpp"

#include <sys/socket.h>

#include <functional>
#include <list>
#include <memory>
#include <string>

namespace troupe {

/// A member of the job at the door: it has greeted and waits for an answer.
struct LinkVisitor {
  std::unique_ptr<Conversation> conversation;
  LinkHello hello;
  bool local = false; ///< by the socket of this host
  std::string address;
};

struct ListenerOptions {
  const TlsContext* tls = nullptr; ///< null: no TCP
  std::string listen;              ///< in digits or a name
  std::string key;                 ///< what a visitor must know
  std::string unix_name;
  uint64_t id = 0; ///< of this process
};

/// The door of a process: accepts connections and hears their greeting, each
/// within two seconds and at most 256 at a time (beyond, the oldest has to go),
/// over TCP as many as DoorBudget allows.
/// Whoever does not belong to the job is dropped and counted. On the loop's
/// thread, but for the constructor.
class LinkListener {
public:
  /// Errors: InputError when it cannot listen there.
  LinkListener(IoLoop& loop, ListenerOptions options);
  ~LinkListener();
  LinkListener(const LinkListener&) = delete;
  LinkListener& operator=(const LinkListener&) = delete;

  /// Where TCP listens, in digits; empty and 0: nowhere.
  const std::string& host() const { return host_; }
  uint16_t port() const { return port_; }

  /// Opens the door.
  void start(std::function<void(LinkVisitor)> on_visitor,
             std::function<void(const std::string& why)> on_stranger);
  /// Tells a visitor why not, in two seconds at most.
  void refuse(LinkVisitor visitor, const std::string& why);

private:
  struct Guest {
    std::unique_ptr<Conversation> conversation;
    bool local = false;
    std::string address;
    std::string network{};
    DoorBudget::Cost cost{}; ///< so far
  };
  using Guests = std::list<Guest>;

  void listen_on(Descriptor& door, const std::string& what,
                 const sockaddr* address, socklen_t size);
  void open(Descriptor& door, uint64_t& watch, bool local);
  void accept_some(Descriptor& door, uint64_t& watch, bool local);
  bool accept_one(Descriptor& door, uint64_t& watch, bool local);
  void admit_local(Descriptor made);
  void admit(Descriptor made, const ThreadTime& time);
  Guests::iterator add(Descriptor made, TlsSession session, bool local,
                       std::string address);
  Handshake::State go_on(Guests::iterator guest, Handshake& handshake);
  void rest();
  void queue(bool crowded);
  void on_greeted(Guests::iterator guest, Handshake::State state);
  void drop(Guests::iterator guest, const std::string& why);

  IoLoop& loop_;
  ListenerOptions options_;
  size_t max_guests_;
  std::string host_;
  uint16_t port_ = 0;
  Descriptor tcp_door_;
  Descriptor local_door_;
  uint64_t tcp_watch_ = 0;
  uint64_t local_watch_ = 0;
  uint64_t pause_ = 0;
  uint64_t rest_ = 0;
  Guests guests_;
  DoorBudget budget_;
  bool crowded_ = false;
  std::list<std::unique_ptr<Conversation>> refused_;
  std::function<void(LinkVisitor)> on_visitor_;
  std::function<void(const std::string&)> on_stranger_;
};

} // namespace troupe
