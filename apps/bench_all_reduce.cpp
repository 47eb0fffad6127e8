#include "apps/commands.hpp"
#include "apps/driven_peer.hpp"
#include "apps/member_costs.hpp"
#include "apps/numbers.hpp"
#include "apps/reduce_carriers.hpp"
#include "apps/reduce_table.hpp"
#include "kernels/error.hpp"
#include "kernels/replica.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

namespace troupe {

namespace {

/// Iterations of a round: about so many bytes, and no fewer than five.
constexpr uint64_t round_bytes = 32 << 20;
constexpr uint32_t fewest_iterations = 5;
constexpr uint32_t usual_iterations = 300;

ReduceSide::Round round_of(uint64_t bytes) {
  return {bytes, static_cast<uint32_t>(std::clamp<uint64_t>(
                   round_bytes / bytes, fewest_iterations, usual_iterations))};
}

std::string to_string(ReduceLink link) {
  return link == ReduceLink::memory ? "memory"
         : link == ReduceLink::shm  ? "shm"
                                    : "tcp";
}

/// A peer that may be there, and the program it is.
struct PeerProgram {
  std::string name;
  std::string program;
  std::vector<std::string> arguments;
};

std::vector<PeerProgram> peers_of(ReduceLink link, uint32_t members,
                                  const std::string& folder) {
  const auto count = std::to_string(members);
  const auto mpi = folder + "/openmpi_all_reduce";
  std::vector<std::string> words{"mpirun",          "-np",   count,
                                 "--oversubscribe", "--mca", "btl"};
  std::vector<PeerProgram> peers;
  if (link != ReduceLink::tcp) {
    words.insert(words.end(), {"vader,self", mpi});
    peers.push_back({"Open MPI, shared memory", mpi, words});
    return peers;
  }
  words.insert(words.end(),
               {"tcp,self", "--mca", "btl_tcp_if_include", "lo", mpi});
  peers.push_back({"Open MPI, TCP", mpi, words});
  const auto gloo = folder + "/gloo_all_reduce";
  peers.push_back({"Gloo, TCP", gloo, {gloo, count}});
  return peers;
}

/// All that is measured for one link, number of members and reduction.
struct Sides {
  std::unique_ptr<ReduceSide> own;
  std::unique_ptr<ReduceSide> limit;
  std::vector<std::unique_ptr<ReduceSide>> peers;
};

Sides sides_of(const ReduceGroup& group, const BenchOptions& options) {
  Sides sides;
  // Forked before anything else is started, so that nobody inherits it.
  sides.own = make_own_side(group);
  sides.limit = make_limit(group);
  const auto folder = std::filesystem::absolute(options.peers).string();
  for (auto& peer : peers_of(group.link, group.members, folder))
    if (group.members > 1 && std::filesystem::exists(peer.program))
      sides.peers.push_back(
        std::make_unique<DrivenPeer>(peer.name, std::move(peer.arguments)));
  return sides;
}

ReduceRow measure(Sides& sides, const ReduceGroup& group, uint64_t bytes,
                  uint32_t rounds) {
  ReduceRow row;
  row.link = to_string(group.link);
  row.members = group.members;
  row.bytes = bytes;
  row.reduction = group.reproducible ? "reproducible" : "fast";
  const auto round = round_of(bytes);
  for (uint32_t i = 0; i <= rounds; ++i) {
    const bool counts = i > 0; // the first one warms up
    const auto own = sides.own->run(round);
    const auto limit = sides.limit->run(round);
    if (counts) {
      row.own.push_back(own.us);
      row.limit.push_back(limit.us);
    }
    row.peers.resize(sides.peers.size());
    for (size_t k = 0; k < sides.peers.size(); ++k) {
      const auto theirs = sides.peers[k]->run(round);
      row.peers[k].name = sides.peers[k]->name();
      row.peers[k].version = sides.peers[k]->version();
      row.peers[k].algorithm = theirs.algorithm;
      if (counts)
        row.peers[k].us.push_back(theirs.us);
    }
  }
  return row;
}

void measure_group(const ReduceGroup& group, const BenchOptions& options,
                   ReduceTable& table) {
  auto sides = sides_of(group, options);
  for (auto bytes : options.bytes) {
    const auto row = measure(sides, group, bytes, options.rounds);
    ReduceTable::print(row);
    table.keep(row);
  }
}

/// Says which peers are missing, before the table.
void note_missing(const BenchOptions& options) {
  std::vector<std::string> missing;
  for (auto link : {ReduceLink::memory, ReduceLink::tcp})
    for (const auto& peer : peers_of(link, 2, options.peers))
      if (!std::filesystem::exists(peer.program)
          && std::find(missing.begin(), missing.end(), peer.program)
               == missing.end())
        missing.push_back(peer.program);
  for (const auto& program : missing)
    std::printf("skipped: %s is not there; tests/peers/build makes it where "
                "the library is installed\n",
                program.c_str());
}

bool wanted(const std::string& choice, const std::string& word) {
  return choice == word || choice == "all" || choice == "both";
}

} // namespace

int run_bench_all_reduce(const Settings& settings) {
  const auto& options = settings.bench;
  const auto isa = select_isa("auto");
  if (options.link == "actors")
    return run_member_costs(settings);
  note_missing(options);
  ReduceTable::print_head(isa, options.rounds);
  ReduceTable table;
  for (auto link : {ReduceLink::memory, ReduceLink::shm, ReduceLink::tcp})
    for (auto members : options.members)
      for (bool reproducible : {true, false}) {
        if (!wanted(options.link, to_string(link))
            || !wanted(options.reduction,
                       reproducible ? "reproducible" : "fast"))
          continue;
        ReduceGroup group;
        group.link = link;
        group.members = members;
        group.most_bytes = *std::max_element(options.bytes.begin(),
                                             options.bytes.end());
        group.reproducible = reproducible;
        measure_group(group, options, table);
      }
  if (!settings.json.empty())
    table.write(settings.json);
  return 0;
}

} // namespace troupe
