#include "actors/role/link_terms.hpp"

#include "actors/job/role_parts.hpp"
#include "actors/job/slice_update.hpp"
#include "actors/job/stage_mesh.hpp"
#include "kernels/data/row_supply.hpp"
#include "kernels/graph/stages.hpp"

#include <algorithm>
#include <bit>
#include <optional>

namespace troupe {
namespace {

constexpr uint64_t min_window_bytes = uint64_t{32} << 20;

uint64_t shard_window(const Job& job) {
  return std::max(min_window_bytes, min_shard_window(job, max_passing_bytes));
}

/// For each slice the first operator of the forward pass that reads of it.
SliceRanks ranks_of(const Job& job) {
  if (job.options.priority != "on")
    return nullptr;
  const auto& ops = job.worker_graph.ops;
  auto first = std::vector<uint32_t>(job.plan.variables.size(),
                                     static_cast<uint32_t>(ops.size()));
  for (auto i = static_cast<uint32_t>(ops.size()); i-- > 0;)
    for (auto parameter : ops[i].parameters)
      first[parameter] = i;
  auto ranks = std::make_shared<std::vector<uint32_t>>();
  for (const auto& slice : job.plan.slices)
    ranks->push_back(first[slice.variable]);
  return ranks;
}

/// What crosses at most between stages for the scalars over all parameters: the
/// sums of all slices, or a scalar for each variable.
uint64_t round_bytes(const Job& job) {
  uint64_t bytes = 0;
  for (const auto round : rounds_of(job.options)) {
    bytes += job.plan.variables.size() * sizeof(float) + frame_header_bytes;
    for (const auto& slice : job.plan.slices)
      bytes += sums_of(job, slice, round) * sizeof(double);
  }
  return bytes;
}

/// What a member of one place in another pipeline, or group, sends of a step at
/// most, of a gradient: a share of each of its nodes, and its own share.
uint64_t peer_bytes(const Job& job, uint64_t elements) {
  const auto mesh = mesh_of(job.options);
  if (mesh.data == 1 || job.plan.served)
    return 0;
  const MeshSum sum{mesh, job.options.virtual_ranks};
  size_t most = 0;
  for (uint32_t pipeline = 0; pipeline < mesh.data; ++pipeline)
    most = std::max(most, sum.nodes(pipeline).size());
  uint64_t share = 0;
  for (uint32_t index = 0; index < mesh.data; ++index)
    share = std::max(share, share_of(index, mesh.data, elements).size());
  const auto frames = 1 + share * sizeof(float) / TensorView::max_bytes;
  return (most + 1) * (share * sizeof(float) + frames * frame_header_bytes);
}

/// The same of sums over all virtual ranks in the middle of passes.
uint64_t statistics_bytes(const Job& job, const GraphPart& part) {
  const auto mesh = mesh_of(job.options);
  uint64_t bytes = 0;
  if (mesh.data > 1 && job.goes_in_lock_step())
    for (bool forward : {true, true, false}) // once more, if computed again
      for (auto doubles : rank_sums(job.graph, part, forward))
        bytes += mesh.max_ranks(job.options.virtual_ranks) * doubles
                   * sizeof(double)
                 + frame_header_bytes;
  return bytes;
}

/// All that a stage, or a tensor member, can be sent of a step by one other,
/// twice: credit comes back when half of a window is free. Of two stages with
/// several chunks one is both neighbours. A member of the same stage is in no
/// crossing of this one, and no further ahead than the sum after the one that
/// both take part in. Who holds the same in another pipeline is in neither.
uint64_t part_window(const Job& job, RoleId role) {
  const auto ranks = uint64_t{job.options.virtual_ranks};
  const auto rows = job.max_rows();
  const RoleParts parts{job, role};
  uint64_t forward = 0;
  uint64_t back = 0;
  uint64_t crossings = 0;
  uint64_t of_peer = 0;
  uint64_t of_sum = 0;
  for (const auto& [number, part] : parts.chunks()) {
    forward += ranks * forward_elements(job.graph, part.in, rows)
               + parameter_elements(job.graph, part.in);
    back += ranks * backward_elements(job.graph, part.out, rows);
    crossings += ranks;
    of_peer += peer_bytes(job, Layout{job.graph, part.parameters}.total)
               + statistics_bytes(job, part);
    for (const auto& sum : part.sums)
      of_sum = std::max(of_sum, rows * job.graph.values[sum.value].size());
  }
  const bool both = job.plan.mesh().stages == 2 && parts.chunks().size() > 1;
  const auto elements = both ? forward + back : std::max(forward, back);
  const auto of_neighbour = elements * sizeof(float)
                            + (both ? 2 : 1) * crossings * frame_header_bytes;
  const auto of_member = 2 * (of_sum * sizeof(float) + frame_header_bytes);
  const auto of_place = std::max(of_neighbour, of_member) + round_bytes(job);
  return std::max(min_window_bytes,
                  2 * (std::max(of_place, of_peer) + max_passing_bytes));
}

/// What a worker asks for of four steps: a request holds its part of the window
/// until its answer has left, so no more of them wait for a slow worker.
uint64_t reader_window(const Job& job) {
  return 4
         * (job.sampling.max_of_step() * sample_words(job.options.samples)
              * sizeof(float)
            + job.options.virtual_ranks * frame_header_bytes);
}

} // namespace

uint64_t min_shard_window(const Job& job, uint64_t passing_bytes) {
  const auto& plan = job.plan;
  // One worker pushes so many of a slice, however many there are: two a level.
  const uint64_t nodes = 2 * std::bit_width(job.options.virtual_ranks);
  uint64_t largest = 0;
  uint64_t all = 0;
  for (const auto& slice : plan.slices) {
    const auto bytes = frame_header_bytes
                       + (slice.sparse() ? TensorView::max_bytes
                                         : slice.count * sizeof(float));
    largest = std::max(largest, bytes);
    all += bytes; // it may be given any of them
  }
  // This holds for an asynchronous job, too: it may be switched.
  const bool waits = !rounds_of(job.options).empty();
  // Twice what must fit: credit comes back when half of a window is free. Not
  // all senders send in one order.
  return 2 * (nodes * (waits ? all : largest) + passing_bytes);
}

MessageLinks::Terms link_terms(const Job& job, RoleId role) {
  if (role.kind == RoleKind::shard)
    return {{MessageKind::pull, MessageKind::push, MessageKind::lease_push,
             MessageKind::block_sums, MessageKind::chain_join,
             MessageKind::slice_copy, MessageKind::chain_update,
             MessageKind::chain_scalars, MessageKind::scalars_held,
             MessageKind::ask_shares, MessageKind::row_pull},
            shard_window(job),
            ranks_of(job)};
  if (has_model_part(role.kind))
    return {{MessageKind::stage_values}, part_window(job, role)};
  if (role.kind == RoleKind::reader)
    return {{MessageKind::rows_wanted},
            reader_window(job),
            {},
            MemberName::Kind::worker};
  return {{MessageKind::pulled}, min_window_bytes, ranks_of(job)};
}

MessageLinks::Terms shard_peer_terms() {
  return {{MessageKind::scalars, MessageKind::step_shares}, min_window_bytes};
}

MessageLinks::Terms stage_shard_terms() {
  return {{MessageKind::pulled}, min_window_bytes};
}

MessageLinks::Terms row_fetcher_terms() {
  return {{MessageKind::rows_served}, min_window_bytes, {}};
}

size_t snapshot_window() {
  return size_t{8} << 20;
}

std::string unlinkable(const Job& job, RoleId worker,
                       const std::vector<Member>& members) {
  if (job.options.link != "shm")
    return {};
  std::optional<LinkEndpoint> own;
  for (const auto& member : members)
    if (member.role == worker)
      own = parse_link_endpoint(member.links);
  for (const auto& member : members) {
    const auto peer = parse_link_endpoint(member.links);
    if (own && peer && member.role.kind == RoleKind::shard
        && peer->host_mark != own->host_mark)
      return "--link shm: " + to_string(worker) + " and "
             + to_string(member.role)
             + " are on different hosts; use --link auto";
  }
  return {};
}

} // namespace troupe
