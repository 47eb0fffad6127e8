#pragma once

#include "actors/certificates/tls_context.hpp"
#include "actors/links/link_endpoint.hpp"
#include "actors/links/link_group.hpp"
#include "actors/links/link_memory.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

/// Where a process listens for links, and how it speaks on them.
struct LinkOptions {
  /// Without it there is no TCP: links stay on this host.
  std::shared_ptr<const TlsContext> tls;
  std::string listen = "127.0.0.1"; ///< without port
  /// Who connects is told this; empty: what is listened on (0.0.0.0: the first
  /// address of this machine beyond loopback).
  std::string announce;
  LinkChoice link = LinkChoice::automatic;
  LinkEncryption encryption = LinkEncryption::automatic;
  /// HOST:PORT, a number: what TCP is dialled through, in tests; empty: none.
  std::string proxy;
  /// Takes what is worth telling (a stranger at the door), one line each, not
  /// often; called by the I/O thread. Empty: nobody is told.
  std::function<void(const std::string& line)> log;
  /// What channels on this host may read; null: nothing.
  std::shared_ptr<LinkMemory> memory{};
  /// A connection on which nothing is answered for so long is cut.
  std::chrono::milliseconds patience{3'000};
  /// Other than this host's own mark: a test that plays several hosts.
  std::string host_mark;
};

/// One stream to another process, under a name that it accepts.
struct ChannelRequest {
  Fence fence;
  std::string channel;  ///< up to 128 characters
  std::string from;     ///< who opens it: "worker:1"; up to 64 characters
  std::string endpoint; ///< of the process that accepts
  std::string to;       ///< who accepts it, for people: "ps:0"
  IoLoop::Clock::time_point deadline;
};

/// This side's end of the stream, or why there is none.
struct ChannelOutcome {
  std::string error; ///< one line; empty: open
  std::unique_ptr<LinkSocket> socket;
  std::string carrier;              ///< "unix", "tcp", "tcp+tls"
  std::vector<Descriptor> passed{}; ///< of the peer's LinkMemory
};

/// The other side's end of a stream that somebody opened.
struct ChannelArrival {
  Fence fence;
  std::string from;
  std::unique_ptr<LinkSocket> socket;
  std::string carrier;
  std::vector<Descriptor> passed{};
};

/// A link that is tried: between whom, and until when.
struct LinkTrial {
  std::string from;     ///< who tries it: "worker:1"
  std::string endpoint; ///< of the other process
  std::string to;       ///< who that is: "ps:0"
  IoLoop::Clock::time_point deadline;
};

/// Who came to the door so far.
struct LinkCounters {
  uint64_t accepted = 0;  ///< connections of members
  uint64_t strangers = 0; ///< dropped: not of this job, or garbage
  uint64_t refused = 0;   ///< members that asked for what is not there
};

/// The links of one process to others of its job: listens on TCP (mutual TLS
/// first, whatever follows) and on a socket of this host, dials, shakes hands
/// and tells of the peers' death. One thread for all of it, io().
class LinkNode {
public:
  /// Errors: InputError for unreadable credentials, an address that cannot be
  /// listened on, and one beyond loopback without credentials.
  explicit LinkNode(LinkOptions options);
  /// What is still being formed fails; handlers are not called any more.
  ~LinkNode();

  /// How others reach this process. Holds a secret: to be sent over the control
  /// plane only, never shown.
  const std::string& endpoint() const;

  /// Links all members of a group to one another for one epoch. Every member
  /// asks for it, in any order; one that asks under an older fence is refused,
  /// and a newer request for the same group ends the older.
  /// Completion: done() once, from the I/O thread, at the deadline at the
  /// latest; it does not wait.
  void form_group(GroupRequest request, std::function<void(GroupOutcome)> done);

  /// Opens one stream to another process, whose on_channel() handler gets the
  /// other end.
  /// Completion: as form_group.
  void open_channel(ChannelRequest request,
                    std::function<void(ChannelOutcome)> done);
  /// Tries whether a link to another process would carry what links carry:
  /// opens a stream, and hears from there what it says on it (Echo). Each node
  /// answers.
  /// Completion: as form_group: done(whether it does).
  void try_link(LinkTrial trial, std::function<void(bool works)> done);
  /// Sets who takes the streams opened under a name; empty: nobody, they wait a
  /// while. Called from the I/O thread.
  void on_channel(std::string channel,
                  std::function<void(ChannelArrival)> handler);

  const std::shared_ptr<LinkMemory>& memory() const;
  LinkCounters counters() const;
  std::chrono::milliseconds patience() const;
  /// The loop, for those who serve their sockets on the same thread.
  IoLoop& io();

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace troupe
