#pragma once

#include "actors/certificates/member_name.hpp"
#include "actors/wire/caf.hpp"

#include <deque>
#include <map>
#include <mutex>

namespace troupe {

/// Which member each node of CAF is: the one whose certificate it showed first.
/// A node's name is its own word, so that another member could take it once the
/// first is gone; it would be sent what is the first one's. Thread-safe.
class KnownNodes {
public:
  /// False: the node is another member's.
  bool belongs(const caf::node_id& node, const MemberName& member);

private:
  static constexpr size_t most = 65'536;

  std::mutex mutex_;
  std::map<caf::node_id, MemberName> members_;
  std::deque<caf::node_id> order_; ///< in which they came
};

} // namespace troupe
