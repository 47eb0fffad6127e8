#pragma once

#include "actors/links/message_receiver.hpp"
#include "actors/links/message_sender.hpp"

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace troupe {

/// One end of a stream of typed messages between two processes. The thread that
/// has the socket's events drives it; any thread sends.
///
/// What is in flight never exceeds what the peer granted (I10): its window,
/// renewed as the peer's actors let go of the tensors they got. So a slow
/// reader stops its writer, whose messages wait here, as views.
///
///     send()  -> waiting, without credit -> wire -> socket
///     socket  -> header -> pooled block  -> message() -> view let go -> grant
class MessageLink : public std::enable_shared_from_this<MessageLink> {
public:
  struct Options {
    std::string peer; ///< for people: "worker:1"
    std::vector<MessageKind> accepted;
    uint64_t window_bytes = uint64_t{32} << 20; ///< granted to the peer
    /// Tensors in it are lent to peers on this host; null: all are sent.
    std::shared_ptr<LinkMemory> memory{};
    std::shared_ptr<const PeerMemory> peer_memory{};
    SliceRanks ranks{}; ///< of what is sent
  };
  struct Events {
    /// Called by the driving thread.
    std::function<void(LinkMessage&&)> message;
    /// The driving thread is to look at wants_write(); from any thread.
    std::function<void()> wake;
  };
  struct Counts {
    /// Of messages: headers and tensors, lent ones too.
    uint64_t sent_bytes = 0;
    uint64_t received_bytes = 0; ///< from the socket
    uint64_t arrived_bytes = 0;  ///< of messages, as the peer counts sent_bytes
    uint64_t queued_bytes = 0;   ///< waiting for credit or for the socket
  };

  static std::shared_ptr<MessageLink> make(std::unique_ptr<LinkSocket> socket,
                                           Options options, Events events);

  /// Sends a message; from any thread. Writes at once when the socket takes it;
  /// never blocks. What is sent on a link that is down is dropped.
  void send(LinkMessage message);

  // --- of the driving thread ------------------------------------------------

  /// After each of these two, wants_write() is to be asked.
  void on_readable();
  void on_writable();
  /// Whether on_writable() is to be called once the socket can be written.
  bool wants_write();
  /// Why the link is down, one line; empty: it is not.
  const std::string& down() const { return down_; }
  /// Whether it is because of what the peer sent.
  bool broke_rules() const { return broke_rules_; }
  /// Ends the link: lets go of all tensors; no event follows.
  void close();
  /// Takes the link for down; says what the peer does not do.
  void give_up(const std::string& what) { set_down(what); }
  /// Nothing of what was sent leaves once this has returned, not even the rest
  /// of a frame; from any thread. The loop learns that the link is down.
  void hush();
  /// What is being sent is sent as it is now, whatever becomes of its memory
  /// once this has returned; from any thread.
  void own_values();

  int descriptor() const { return socket_->descriptor(); }
  Counts counts() const;

private:
  MessageLink(std::unique_ptr<LinkSocket> socket, Options options,
              Events events);
  MessageReceiver::Events receiver_events();
  bool arrive(uint64_t bytes);
  void released(uint64_t bytes);
  void pump();
  LinkSocket::Io receive(std::span<std::byte> room);
  void set_down(const std::string& what);
  void look();
  void reclaim();

  std::unique_ptr<LinkSocket> socket_;
  Options options_;
  Events events_;
  std::string down_;
  bool broke_rules_ = false;

  std::mutex pen_; ///< held by who writes; where there is TLS, by who reads too
  MessageSender sender_;
  std::atomic<bool> dirty_{false};   ///< there may be something to write
  std::atomic<bool> blocked_{false}; ///< until the socket can be written
  std::atomic<bool> broken_{false};
  std::atomic<bool> looking_{false}; ///< the driver was woken

  std::mutex credit_mutex_;
  CreditSource source_;
  std::atomic<uint64_t> received_{0};
  std::atomic<uint64_t> arrived_{0};
  std::atomic<uint64_t> released_{0};
  std::atomic<uint64_t> renew_at_{0}; ///< released bytes that need a grant

  MessageReceiver receiver_;
};

} // namespace troupe
