#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

/// What a member of a collective does with a run of elements.
enum class TransferKind : uint8_t {
  send,
  add,   ///< receives and adds to its own
  copy,  ///< receives over its own
  stage, ///< receives beside its own: the fixed tree sums it later
};

/// One run of elements to or from a peer. Units: elements.
struct Transfer {
  TransferKind kind = TransferKind::send;
  uint32_t peer = 0;
  uint64_t begin = 0;
  uint64_t end = 0;

  friend bool operator==(const Transfer&, const Transfer&) = default;
};

/// Transfers that may go on at once; a round begins when the one before it is
/// done. No transfer of a round writes what another of it reads or writes.
using Round = std::vector<Transfer>;

/// What one member does, round by round. Between two members, sends and
/// receives match in order; empty runs are left out on both sides.
using Schedule = std::vector<Round>;

/// The members of a collective, as one of them sees it.
struct CollectivePlace {
  uint32_t rank = 0;
  uint32_t size = 1;
  uint64_t count = 0; ///< elements of everybody's vector
};

/// Run `part` of `parts` of [0, count): [floor(part count / parts), …).
std::pair<uint64_t, uint64_t> run_of(uint64_t count, uint32_t part,
                                     uint32_t parts);

/// After it, run `rank` holds the sum. size - 1 rounds, count (size - 1) / size
/// elements sent.
Schedule ring_reduce_scatter(const CollectivePlace& at);
/// From run `rank` of each to all of it for everybody. Costs as above.
Schedule ring_all_gather(const CollectivePlace& at);
/// Both: 2 (size - 1) rounds, 2 count (size - 1) / size elements sent.
/// Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for
/// clusters of workstations", 2009.
Schedule ring_all_reduce(const CollectivePlace& at);

/// Recursive halving, then doubling: 2 floor(log2 size) rounds, and two more
/// with all elements where size is no power of two.
/// Source: Rabenseifner, 2004; for other sizes Thakur, Rabenseifner, Gropp,
/// "Optimization of Collective Communication Operations in MPICH", 2005,
/// section 4.
Schedule halving_doubling_all_reduce(const CollectivePlace& at);

/// Everybody sends run r to r at once and stages what it gets, so that r can
/// sum along the fixed tree: one round, count (size - 1) / size elements sent.
/// Then ring_all_gather completes an all-reduce.
Schedule direct_reduce_scatter(const CollectivePlace& at);

/// Binomial trees: ceil(log2 size) rounds of all elements.
Schedule tree_broadcast(const CollectivePlace& at, uint32_t root);
Schedule tree_reduce(const CollectivePlace& at, uint32_t root);

/// Inside each group first, then across, then back. `groups` holds the ranks of
/// each group (a host's, say). Groups of one size scatter inside and reduce
/// their runs across, side by side; others reduce to each group's first.
/// Source: the two-level schemes of NCCL and Horovod.
Schedule
hierarchical_all_reduce(const CollectivePlace& at,
                        const std::vector<std::vector<uint32_t>>& groups);

enum class AllReduce : uint8_t {
  automatic,
  ring,
  halving_doubling,
  hierarchical,
};

/// A verdict and its reason.
struct AllReduceChoice {
  AllReduce algorithm = AllReduce::ring;
  std::string reason;
};

/// Chooses by size and topology: `groups` as above, `bytes` of the vector.
AllReduceChoice
choose_all_reduce(uint64_t bytes,
                  const std::vector<std::vector<uint32_t>>& groups);

} // namespace troupe
