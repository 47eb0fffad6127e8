#pragma once

#include "actors/shard/known_lists.hpp"
#include "actors/shard/shard_context.hpp"
#include "actors/wire/interfaces.hpp"
#include "strategies/pull_desk.hpp"

#include <cstdint>
#include <map>
#include <vector>

namespace troupe {

/// The pulls of rows of one part of a sparse table that wait for a version.
class RowDesk {
public:
  /// A wish for a newer version replaces the worker's earlier one; a late copy
  /// of an older one changes nothing.
  void want(const RowPull& pull, KnownLists::List ids,
            const worker_actor& worker);

  struct Ready {
    worker_actor worker;
    uint64_t version = 0;
    KnownLists::List ids;
  };
  /// Those that can be served; see PullDesk::serve().
  std::vector<Ready> serve(uint64_t oldest, uint64_t known);
  void reset();

private:
  struct Wish {
    worker_actor worker;
    KnownLists::List ids;
  };
  PullDesk desk_{1};
  std::map<RoleId, Wish> wishes_;
};

/// Reads rows on the executor, after all that was submitted before, and sends
/// them to the worker; what the table has not got (any more) is not answered.
void send_rows(ShardContext& shard, uint32_t slice, RowDesk::Ready ready);

/// The same of whatever version is the newest then.
void send_newest_rows(ShardContext& shard, uint32_t slice,
                      RowDesk::Ready ready);

} // namespace troupe
