#pragma once

#include "actors/wire/caf.hpp"
#include "actors/wire/tensor_view.hpp"
#include "kernels/collective/reducer.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

/// All-reduce between actors of one process: each owner asks its member, the
/// last vector to arrive causes the sums, in runs that the members' turns of
/// the scheduler share, and every owner gets the same view of the one sum.
/// Nobody waits but in a mailbox; members have no threads.
///
///   owner --MemberVector--> member --Arrival--> group
///   owner <-MemberOutcome-- member <-MemberOutcome-- group
///                           member <-SumRun-, -RunSummed-> group (long
///                           vectors)

/// What a member brings to its next all-reduce. The order of its calls is that
/// of everybody's.
struct MemberVector {
  TensorView values;
};
/// What became of an all-reduce; `sum` is there if it is done.
struct MemberOutcome {
  CollectiveResult result;
  TensorView sum; ///< along the fixed tree (PROTOCOL 3); one for all members
};

struct CollectiveCall; // of one all-reduce; between the group and its members
/// A member's vector for call number `call`.
struct Arrival {
  uint32_t rank = 0;
  uint64_t call = 0;
  TensorView values;
};
/// Asks a member to sum elements [begin, end) in its turn of the scheduler.
struct SumRun {
  std::shared_ptr<CollectiveCall> call;
  uint64_t begin = 0;
  uint64_t end = 0;
};
/// It has.
struct RunSummed {
  std::shared_ptr<CollectiveCall> call;
};

using collective_member_actor =
  caf::typed_actor<caf::result<MemberOutcome>(MemberVector),
                   caf::result<void>(MemberOutcome), caf::result<void>(SumRun)>;

/// Tells the group who its member of that rank is.
struct Enlist {
  uint32_t rank = 0;
  collective_member_actor member;
};
using collective_group_actor =
  caf::typed_actor<caf::result<void>(Enlist), caf::result<void>(Arrival),
                   caf::result<void>(RunSummed),
                   caf::result<void>(caf::tick_atom)>;

inline constexpr uint32_t max_collective_members = 1'000;

/// How many members there are, and how long a call may take.
struct CollectiveOptions {
  uint32_t members = 1;
  /// Counts from the first arrival of a call; then that ends late for all, and
  /// so do those after it.
  std::chrono::milliseconds deadline{30'000};
};

/// Spawns the members of a group, by rank. Ending one (its owner died) ends
/// what is under way and all that follows for everybody, with an outcome that
/// names it. All go when they are sent an exit.
std::vector<collective_member_actor>
spawn_collective_members(caf::actor_system& system,
                         const CollectiveOptions& options);

} // namespace troupe

// These stay in the process: they have no wire form.
CAF_BEGIN_TYPE_ID_BLOCK(troupe_collectives, caf::first_custom_type_id + 200)
CAF_ADD_TYPE_ID(troupe_collectives, (troupe::MemberVector))
CAF_ADD_TYPE_ID(troupe_collectives, (troupe::MemberOutcome))
CAF_ADD_TYPE_ID(troupe_collectives, (troupe::Enlist))
CAF_ADD_TYPE_ID(troupe_collectives, (troupe::Arrival))
CAF_ADD_TYPE_ID(troupe_collectives, (troupe::SumRun))
CAF_ADD_TYPE_ID(troupe_collectives, (troupe::RunSummed))
CAF_END_TYPE_ID_BLOCK(troupe_collectives)

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::MemberVector)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::MemberOutcome)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::Enlist)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::Arrival)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::SumRun)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::RunSummed)
