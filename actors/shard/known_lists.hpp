#pragma once

#include "actors/compute/recent_lists.hpp"
#include "actors/job/job.hpp"
#include "actors/wire/messages.hpp"
#include "kernels/table/row_list.hpp"

#include <map>
#include <memory>

namespace troupe {

/// The lists of rows that workers have named to a shard, of one part of a
/// table: who pulls with ids names them, and says the name alone when it pushes
/// their gradients or pulls them again. With the ids the table keeps where it
/// has them. Touched by the shard's actor; what a list leads to, by its
/// executor.
class KnownLists {
public:
  using List = std::shared_ptr<const RowList>;

  struct Said {
    List list;          ///< null: not known, or no wish
    bool named = false; ///< by its name alone
  };
  /// What a pull asks for.
  Said pulled(const Job& job, const Slice& slice, const RowPull& pull);
  /// The list that a payload is of, where it is known.
  Said pushed(const Job& job, const Slice& slice,
              const TensorView& values) const;
  /// The epoch is over.
  void reset() { lists_.clear(); }

private:
  std::map<RoleId, RecentLists<List>> lists_;
};

} // namespace troupe
