#include "apps/bench/driven_peer.hpp"
#include "apps/bench/member_costs.hpp"
#include "apps/bench/reduce_carriers.hpp"
#include "apps/bench/reduce_table.hpp"
#include "apps/settings/commands.hpp"
#include "apps/terminal/numbers.hpp"
#include "kernels/base/error.hpp"
#include "kernels/engine/replica.hpp"

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

/// All that is measured for one link and number of members, in turns.
struct Sides {
  struct Own {
    std::string reduction;
    std::unique_ptr<ReduceSide> side;
  };
  std::vector<Own> own;
  std::unique_ptr<ReduceSide> limit;
  std::vector<std::unique_ptr<ReduceSide>> peers;
};

bool wanted(const std::string& choice, const std::string& word) {
  return choice == word || choice == "all" || choice == "both";
}

Sides sides_of(ReduceGroup group, const BenchOptions& options) {
  Sides sides;
  // Forked before anything else is started, so that nobody inherits it.
  for (bool reproducible : {true, false}) {
    const std::string name = reproducible ? "reproducible" : "fast";
    group.reproducible = reproducible;
    if (wanted(options.reduction, name))
      sides.own.push_back({name, make_own_side(group)});
  }
  sides.limit = make_limit(group);
  const auto folder = std::filesystem::absolute(options.peers).string();
  for (auto& peer : peers_of(group.link, group.members, folder))
    if (group.members > 1 && std::filesystem::exists(peer.program))
      sides.peers.push_back(
        std::make_unique<DrivenPeer>(peer.name, std::move(peer.arguments)));
  return sides;
}

/// Returns what a peer took, us. 0: it has failed, was told of and is left out
/// from here on; our own figures are worth having without it.
double ask(Sides& sides, size_t k, const ReduceSide::Round& round,
           ReduceRow::Peer& peer) {
  try {
    const auto theirs = sides.peers[k]->run(round);
    peer.name = sides.peers[k]->name();
    peer.version = sides.peers[k]->version();
    peer.algorithm = theirs.algorithm;
    return theirs.us;
  } catch (const InputError& failure) {
    std::printf("left out from here on: %s\n", failure.what());
    sides.peers.erase(sides.peers.begin() + static_cast<ptrdiff_t>(k));
    return 0;
  }
}

/// One row for each reduction; the peers, and the fast one of the reproducible
/// one, were measured in the same rounds.
std::vector<ReduceRow> measure(Sides& sides, const ReduceGroup& group,
                               uint64_t bytes, uint32_t rounds) {
  const auto round = round_of(bytes);
  std::vector<std::vector<double>> own(sides.own.size());
  std::vector<double> limit;
  std::vector<ReduceRow::Peer> peers(sides.peers.size());
  for (uint32_t i = 0; i <= rounds; ++i) {
    const auto keep = [&](std::vector<double>& times, double us) {
      if (i > 0) // the first round warms up
        times.push_back(us);
    };
    for (size_t k = 0; k < sides.own.size(); ++k)
      keep(own[k], sides.own[k].side->run(round).us);
    keep(limit, sides.limit->run(round).us);
    for (size_t k = 0; k < sides.peers.size();) {
      const auto us = ask(sides, k, round, peers[k]);
      if (us > 0)
        keep(peers[k++].us, us);
      else
        peers.erase(peers.begin() + static_cast<ptrdiff_t>(k));
    }
  }
  std::vector<ReduceRow> rows;
  for (size_t k = 0; k < own.size(); ++k) {
    rows.push_back({to_string(group.link), sides.own[k].reduction,
                    group.members, bytes, own[k], limit, peers});
    if (k == 0 && own.size() > 1)
      rows.back().peers.push_back(
        {"Troupe, fast", "Troupe " + sides.own[1].side->version(), "", own[1]});
  }
  return rows;
}

void measure_group(const ReduceGroup& group, const BenchOptions& options,
                   ReduceTable& table) {
  auto sides = sides_of(group, options);
  for (auto bytes : options.bytes)
    for (const auto& row : measure(sides, group, bytes, options.rounds)) {
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
    for (auto members : options.members) {
      if (!wanted(options.link, to_string(link)))
        continue;
      ReduceGroup group;
      group.link = link;
      group.members = members;
      group.max_bytes = *std::max_element(options.bytes.begin(),
                                          options.bytes.end());
      measure_group(group, options, table);
    }
  if (!settings.json.empty())
    table.write(settings.json);
  return 0;
}

} // namespace troupe
