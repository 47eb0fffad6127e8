#include "strategies/collective_schedule.hpp"

#include "strategies/require.hpp"

#include <algorithm>
#include <bit>
#include <optional>
#include <tuple>

namespace troupe {

namespace {

using strategies::require;

void check(const CollectivePlace& at) {
  require(at.rank < at.size, "a rank outside the collective");
}

/// Appends a transfer unless it is of nothing.
void put(Round& round, TransferKind kind, uint32_t peer, uint64_t begin,
         uint64_t end) {
  if (begin < end)
    round.push_back({kind, peer, begin, end});
}

/// One step around the ring: run `out` to the next member, run `in` from the
/// one before.
Round ring_step(const CollectivePlace& at, uint32_t out, uint32_t in,
                TransferKind kind) {
  Round round;
  auto [begin, end] = run_of(at.count, out % at.size, at.size);
  put(round, TransferKind::send, (at.rank + 1) % at.size, begin, end);
  std::tie(begin, end) = run_of(at.count, in % at.size, at.size);
  put(round, kind, (at.rank + at.size - 1) % at.size, begin, end);
  return round;
}

void append(Schedule& schedule, Schedule more) {
  for (auto& round : more)
    schedule.push_back(std::move(round));
}

/// A schedule among some of the members, of some of the elements, in the terms
/// of all.
Schedule among(Schedule schedule, const std::vector<uint32_t>& members,
               uint64_t offset) {
  for (auto& round : schedule)
    for (auto& transfer : round) {
      transfer.peer = members[transfer.peer];
      transfer.begin += offset;
      transfer.end += offset;
    }
  return schedule;
}

/// Halving and doubling among the largest power of two of members: `peer` maps
/// their numbers to ranks.
template <class Peer>
void halve_and_double(Schedule& schedule, uint32_t number, uint32_t power,
                      uint64_t count, Peer peer) {
  struct Half {
    uint32_t partner;
    uint64_t kept_begin, kept_end, given_begin, given_end;
  };
  std::vector<Half> halves;
  uint64_t begin = 0;
  uint64_t end = count;
  for (auto distance = power / 2; distance > 0; distance /= 2) {
    const auto middle = begin + (end - begin) / 2;
    const bool low = (number & distance) == 0;
    Half half{peer(number ^ distance), low ? begin : middle, low ? middle : end,
              low ? middle : begin, low ? end : middle};
    Round round;
    put(round, TransferKind::send, half.partner, half.given_begin,
        half.given_end);
    put(round, TransferKind::add, half.partner, half.kept_begin, half.kept_end);
    schedule.push_back(std::move(round));
    begin = half.kept_begin;
    end = half.kept_end;
    halves.push_back(half);
  }
  for (auto half = halves.rbegin(); half != halves.rend(); ++half) {
    Round round;
    put(round, TransferKind::send, half->partner, half->kept_begin,
        half->kept_end);
    put(round, TransferKind::copy, half->partner, half->given_begin,
        half->given_end);
    schedule.push_back(std::move(round));
  }
}

/// Rounds of a binomial tree in which members are numbered from the root. In
/// round k, members below 2^k have it and give it to those 2^k above them.
Schedule binomial(const CollectivePlace& at, uint32_t root) {
  const auto number = (at.rank + at.size - root) % at.size;
  auto rank_of = [&](uint32_t n) { return (n + root) % at.size; };
  Schedule schedule;
  for (uint32_t reach = 1; reach < at.size; reach *= 2) {
    Round round;
    if (number < reach && number + reach < at.size)
      put(round, TransferKind::send, rank_of(number + reach), 0, at.count);
    else if (number >= reach && number < 2 * reach)
      put(round, TransferKind::copy, rank_of(number - reach), 0, at.count);
    schedule.push_back(std::move(round));
  }
  return schedule;
}

/// Where a rank stands among the groups.
struct Standing {
  size_t group;
  uint32_t index;
};

std::optional<Standing> find(const std::vector<std::vector<uint32_t>>& groups,
                             uint32_t rank) {
  for (size_t g = 0; g < groups.size(); ++g)
    for (size_t i = 0; i < groups[g].size(); ++i)
      if (groups[g][i] == rank)
        return Standing{g, static_cast<uint32_t>(i)};
  return std::nullopt;
}

uint32_t size_of(const std::vector<uint32_t>& members) {
  return static_cast<uint32_t>(members.size());
}

} // namespace

std::pair<uint64_t, uint64_t> run_of(uint64_t count, uint32_t part,
                                     uint32_t parts) {
  // Not part * count / parts, which overflows.
  auto bound = [&](uint64_t i) {
    return count / parts * i + count % parts * i / parts;
  };
  return {bound(part), bound(uint64_t{part} + 1)};
}

Schedule ring_reduce_scatter(const CollectivePlace& at) {
  check(at);
  Schedule schedule;
  for (uint32_t step = 0; step + 1 < at.size; ++step) {
    const auto base = at.rank + 2 * at.size - step;
    schedule.push_back(ring_step(at, base - 1, base - 2, TransferKind::add));
  }
  return schedule;
}

Schedule ring_all_gather(const CollectivePlace& at) {
  check(at);
  Schedule schedule;
  for (uint32_t step = 0; step + 1 < at.size; ++step) {
    const auto base = at.rank + 2 * at.size - step;
    schedule.push_back(ring_step(at, base, base - 1, TransferKind::copy));
  }
  return schedule;
}

Schedule ring_all_reduce(const CollectivePlace& at) {
  auto schedule = ring_reduce_scatter(at);
  append(schedule, ring_all_gather(at));
  return schedule;
}

Schedule halving_doubling_all_reduce(const CollectivePlace& at) {
  check(at);
  const auto power = std::bit_floor(at.size);
  const auto extra = at.size - power;
  // The first 2 extra members pair up: the even one hands all it has to the odd
  // one and gets the result from it.
  const bool paired = at.rank < 2 * extra;
  const bool stands_aside = paired && at.rank % 2 == 0;
  Schedule schedule;
  if (extra > 0) {
    Round round;
    if (paired)
      put(round, stands_aside ? TransferKind::send : TransferKind::add,
          at.rank ^ 1, 0, at.count);
    schedule.push_back(std::move(round));
  }
  if (!stands_aside)
    halve_and_double(schedule, paired ? at.rank / 2 : at.rank - extra, power,
                     at.count, [extra](uint32_t number) {
                       return number < extra ? 2 * number + 1 : number + extra;
                     });
  if (paired) {
    Round round;
    put(round, stands_aside ? TransferKind::copy : TransferKind::send,
        at.rank ^ 1, 0, at.count);
    schedule.push_back(std::move(round));
  }
  return schedule;
}

Schedule direct_reduce_scatter(const CollectivePlace& at) {
  check(at);
  Round round;
  const auto [own_begin, own_end] = run_of(at.count, at.rank, at.size);
  // Everybody begins with its neighbour, so that nobody is sent to by all.
  for (uint32_t step = 1; step < at.size; ++step) {
    const auto to = (at.rank + step) % at.size;
    const auto from = (at.rank + at.size - step) % at.size;
    const auto [begin, end] = run_of(at.count, to, at.size);
    put(round, TransferKind::send, to, begin, end);
    put(round, TransferKind::stage, from, own_begin, own_end);
  }
  return {std::move(round)};
}

Schedule tree_broadcast(const CollectivePlace& at, uint32_t root) {
  check(at);
  require(root < at.size, "a root outside the collective");
  return binomial(at, root);
}

Schedule tree_reduce(const CollectivePlace& at, uint32_t root) {
  // A broadcast, backwards.
  auto schedule = tree_broadcast(at, root);
  std::reverse(schedule.begin(), schedule.end());
  for (auto& round : schedule)
    for (auto& transfer : round)
      transfer.kind = transfer.kind == TransferKind::send ? TransferKind::add
                                                          : TransferKind::send;
  return schedule;
}

Schedule
hierarchical_all_reduce(const CollectivePlace& at,
                        const std::vector<std::vector<uint32_t>>& groups) {
  check(at);
  const auto standing = find(groups, at.rank);
  require(standing.has_value(), "a member outside all groups");
  const auto& inside = groups[standing->group];
  const CollectivePlace local{standing->index, size_of(inside), at.count};
  const bool equal =
    std::all_of(groups.begin(), groups.end(),
                [&](auto& group) { return group.size() == inside.size(); });
  const auto column = equal ? standing->index : 0;
  std::vector<uint32_t> across;
  for (const auto& group : groups)
    across.push_back(group.at(column));
  Schedule schedule;
  if (equal) {
    const auto [begin, end] = run_of(at.count, local.rank, local.size);
    append(schedule, among(ring_reduce_scatter(local), inside, 0));
    append(schedule,
           among(ring_all_reduce({static_cast<uint32_t>(standing->group),
                                  size_of(across), end - begin}),
                 across, begin));
    append(schedule, among(ring_all_gather(local), inside, 0));
    return schedule;
  }
  append(schedule, among(tree_reduce(local, 0), inside, 0));
  if (standing->index == 0)
    append(schedule,
           among(ring_all_reduce({static_cast<uint32_t>(standing->group),
                                  size_of(across), at.count}),
                 across, 0));
  append(schedule, among(tree_broadcast(local, 0), inside, 0));
  return schedule;
}

AllReduceChoice
choose_all_reduce(uint64_t bytes,
                  const std::vector<std::vector<uint32_t>>& groups) {
  constexpr uint64_t short_bytes = 256 << 10;
  size_t members = 0;
  bool shared = false;
  for (const auto& group : groups) {
    members += group.size();
    shared = shared || group.size() > 1;
  }
  if (groups.size() > 1 && shared)
    return {AllReduce::hierarchical,
            "several hosts of several members: each host's sum crosses once"};
  if (members > 2 && bytes <= short_bytes)
    return {AllReduce::halving_doubling,
            "a short vector: fewer rounds count for more than bytes"};
  return {AllReduce::ring, "a long vector, or two members: fewest bytes"};
}

} // namespace troupe
