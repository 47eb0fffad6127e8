#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

enum class LinkChoice : uint8_t { automatic, tcp, shm };
enum class LinkEncryption : uint8_t { automatic, on, off };

/// How a process's links are reached, as its text travels:
/// "127.0.0.1:41234;unix=NAME;host=MARK;id=HEX;key=HEX" or "[::1]:41234;…",
/// without the first part when it has no TCP.
struct LinkEndpoint {
  std::string host;      ///< empty: no TCP
  uint16_t port = 0;     ///< 0: no TCP
  std::string unix_name; ///< abstract socket, without the leading zero
  std::string host_mark; ///< equal: the abstract socket can be reached
  uint64_t id = 0;       ///< of the process, random
  std::string key;       ///< who shows it was told by the job, 32 hex digits

  std::string text() const;
  /// "10.0.0.1:4000" or the name of the socket: no secret in it.
  std::string address() const;
};

/// Errors: nullopt for anything else.
std::optional<LinkEndpoint> parse_link_endpoint(const std::string& text);

/// Names the network namespace of this boot of the kernel, in which abstract
/// sockets are visible, and the user.
std::string own_host_mark();

/// What follows from the endpoints alone, equal on every member.
struct LinkPlan {
  std::string error;   ///< one line, empty: fine
  bool shared = false; ///< all over shared memory, none over TCP
  std::vector<std::vector<uint32_t>> hosts;
};
LinkPlan plan_links(const std::vector<LinkEndpoint>& members, LinkChoice link);

/// Whether the bytes between two processes are encrypted on TCP: by default
/// when they leave the host.
bool encrypts(const LinkEndpoint& one, const LinkEndpoint& other,
              LinkEncryption choice);

} // namespace troupe
