#pragma once

#include "actors/certificates/member_name.hpp"

#include <map>
#include <memory>
#include <mutex>

namespace troupe {

/// The connections of a process, control and links, by who is at their other
/// end: so that they can be ended where that member is revoked. Thread-safe.
class LiveConnections : public std::enable_shared_from_this<LiveConnections> {
public:
  /// Ends with the entry. Null: nothing was entered.
  using Entry = std::shared_ptr<void>;

  /// Enters a socket until the entry ends, which must be before it is closed.
  [[nodiscard]] Entry enter(const MemberName& member, int socket);
  /// Ends those of a member.
  void cut(const MemberName& member);

private:
  std::mutex mutex_;
  std::multimap<MemberName, int> sockets_;
};

} // namespace troupe
