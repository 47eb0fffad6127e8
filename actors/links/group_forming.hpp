#pragma once

#include "actors/links/dial.hpp"
#include "actors/links/group_watch.hpp"
#include "actors/links/link_node.hpp"
#include "actors/links/listener.hpp"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// What a process's groups have in common.
struct LinkRoom {
  std::shared_ptr<IoLoop> loop;
  const TlsContext* tls = nullptr;
  LinkEndpoint own;
  LinkChoice link = LinkChoice::automatic;
  LinkEncryption encryption = LinkEncryption::automatic;
  std::string proxy; ///< that others are dialled through; empty: none
  std::chrono::milliseconds patience{3'000}; ///< LinkOptions'
};

/// A group from its request to its outcome: dials the lower ranks, is visited
/// by the higher ones. On the loop's thread; its end gives it up.
class GroupForming {
public:
  using Done = std::function<void(GroupOutcome)>;

  /// Takes the request's segment. Completion: done() once, not before start()
  /// was called; it may end this object.
  GroupForming(const LinkRoom& room, GroupRequest request, Descriptor segment,
               Done done);
  ~GroupForming();
  GroupForming(const GroupForming&) = delete;
  GroupForming& operator=(const GroupForming&) = delete;

  void start();
  const Fence& fence() const { return request_.fence; }
  /// Takes a visitor of this group and fence. Returns why not, or nothing; then
  /// the visitor has been moved from. A visitor that shows that the members
  /// were told different things ends the group.
  std::optional<std::string> admit(LinkVisitor& visitor);
  /// Ends it with a line; `hopeless` as in GroupOutcome.
  void fail(const std::string& why, bool hopeless = false);

private:
  struct Peer {
    LinkEndpoint at;
    std::unique_ptr<Dial> dial;
    std::unique_ptr<Conversation> answering;
    std::unique_ptr<LinkSocket> socket;
    Descriptor segment;
    bool linked = false;
  };

  std::string check();
  std::string whom(uint32_t rank) const;
  bool encrypted(uint32_t rank) const;
  void dial(uint32_t rank);
  void on_dialed(uint32_t rank, Dialed dialed);
  void on_answered(uint32_t rank, Handshake::State state);
  /// Takes what came with a greeting. Errors: a line.
  std::string take_passed(uint32_t rank, Handshake& handshake, bool segment,
                          bool control);
  void link(uint32_t rank, std::unique_ptr<Handshake> handshake);
  void finish();
  /// Who is not linked yet, and what it waits for.
  std::string missing() const;

  const LinkRoom& room_;
  GroupRequest request_;
  Descriptor segment_;
  Done done_;
  LinkPlan plan_;
  std::vector<Peer> peers_;
  Descriptor control_;
  std::shared_ptr<GroupWatch> watch_;
  bool late_ = false; ///< the deadline is over
  uint64_t timer_ = 0;
};

} // namespace troupe
