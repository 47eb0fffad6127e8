#pragma once

#include "actors/job/job.hpp"
#include "actors/links/message_links.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace troupe {

/// What a role takes from its links: the messages it understands, and a window
/// in which every step can end. A shard lets go of a slice's nodes when their
/// tree is whole, and workers push slice by slice: so the nodes of one slice
/// must fit; where an update waits for scalars of all slices, those of all. And
/// the order in which it sends slices (`--priority`).
MessageLinks::Terms link_terms(const Job& job, RoleId role);

/// The least window of a shard in which every step can end, where so many bytes
/// of other slices may overtake a slice that waits to be sent. Bytes.
uint64_t min_shard_window(const Job& job, uint64_t passing_bytes);

/// What a shard takes on links that it opened to other shards.
MessageLinks::Terms shard_peer_terms();
/// What a stage takes on links that it opened to shards that keep its
/// parameters; it copies these as they come.
MessageLinks::Terms stage_shard_terms();
/// What a worker takes on links that it opened to readers.
MessageLinks::Terms row_fetcher_terms();

/// How much of its snapshots a role has on the way to the coordinator at a
/// time. Bytes.
size_t snapshot_window();

/// Why no epoch will ever link `worker` to the shards among `members`: one line
/// for the user; empty: nothing is in the way.
std::string unlinkable(const Job& job, RoleId worker,
                       const std::vector<Member>& members);

} // namespace troupe
