#pragma once

#include "actors/certificates/member_name.hpp"

#include <map>
#include <mutex>

namespace troupe {

/// The control connections that members have made to this process. Thread-safe.
class LiveConnections {
public:
  /// A socket, until it is removed: before it is closed.
  void add(const MemberName& member, int socket);
  void remove(const MemberName& member, int socket);
  /// Ends those of a member.
  void cut(const MemberName& member);

private:
  std::mutex mutex_;
  std::multimap<MemberName, int> sockets_;
};

} // namespace troupe
