#include "actors/slice_update.hpp"
#include "apps/commands.hpp"
#include "apps/driven_peer.hpp"
#include "apps/reduce_table.hpp"
#include "apps/role_launch.hpp"
#include "kernels/buffer.hpp"
#include "kernels/error.hpp"
#include "kernels/files/atomic_file.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace troupe {

namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t steps = 40;     // of an own round
constexpr uint32_t iterations = 5; // of a peer's round

/// One worker and one shard, synchronous: a step pushes a gradient of `bytes`,
/// updates as many parameters and pulls them.
Settings job_settings(uint64_t bytes, const std::string& placement) {
  return parse_settings({"train",
                         "--quiet",
                         "--data",
                         "synthetic:digits?samples=64",
                         "--strategy",
                         "parameter_server",
                         "--workers",
                         "1",
                         "--ps",
                         "1",
                         placement,
                         "--model",
                         "sleep:0ms-" + std::to_string(bytes / sizeof(float)),
                         "--devices",
                         "cpu:1",
                         "--threads-per-device",
                         "1",
                         "--virtual-ranks",
                         "1",
                         "--global-batch",
                         "1",
                         "--optimizer",
                         "sgd",
                         "--lr",
                         "0.001",
                         "--epochs",
                         "0",
                         "--steps",
                         std::to_string(steps),
                         "--eval-every",
                         "0"},
                        {});
}

nlohmann::json summary_of(const RunResult& result) {
  if (result.status != 0)
    throw InputError("bench parameter-server: " + result.line);
  return nlohmann::json::parse(result.summary);
}

/// The weights that every round must end with: of a run in one process.
std::string expected_weights(uint64_t bytes) {
  const auto settings = job_settings(bytes, "--in-process");
  RunOptions run;
  run.job = settings.job;
  return summary_of(
    run_in_process(run, load_job_data(run.job)))["weights_sha256"];
}

/// Returns what a push with its pull took, us.
double own_round(uint64_t bytes, const std::string& expected) {
  const auto settings = job_settings(bytes, "--processes");
  RunOptions run;
  run.job = settings.job;
  RoleOutput output{""};
  const auto summary = summary_of(launch_roles(settings, run, output));
  if (summary["weights_sha256"] != expected)
    throw InputError("bench parameter-server: the processes' weights differ "
                     "from those of one process: nothing is measured");
  return summary["exchange_ms"]["p50"].get<double>() * 1e3;
}

/// One thread updates the parameters and copies them; nobody waits, nothing
/// is sent.
class Limit {
public:
  explicit Limit(uint64_t bytes)
    : gradient_(bytes / sizeof(float)),
      parameters_(gradient_.size()),
      copy_(gradient_.size()) {
    rule_.kind = parse_optimizer("sgd");
    for (auto* buffer : {&gradient_, &parameters_, &copy_})
      buffer->fill(0.5f);
  }

  /// Returns us.
  double round() {
    UpdateArgs args;
    args.gradient_sum = gradient_.data();
    args.in = args.out = parameters_.data();
    args.count = gradient_.size();
    std::vector<double> times;
    for (uint32_t i = 0; i < iterations; ++i) {
      const auto begin = Clock::now();
      update(rule_, args);
      std::memcpy(copy_.data(), parameters_.data(), args.count * sizeof(float));
      times.push_back(
        std::chrono::duration<double, std::micro>(Clock::now() - begin)
          .count());
    }
    return median_of(std::move(times));
  }

private:
  OptimizerOptions rule_;
  Buffer gradient_;
  Buffer parameters_;
  Buffer copy_;
};

struct Peer {
  std::string way;
  std::string name;
  std::unique_ptr<DrivenPeer> program{};
  std::string version{};
  std::vector<double> us{};
};

std::vector<Peer> peers_of(const std::string& folder) {
  const auto program = std::filesystem::absolute(folder).string()
                       + "/ps_lite_push_pull";
  std::vector<Peer> peers;
  if (!std::filesystem::exists(program)) {
    std::printf("skipped: %s is not there; tests/peers/build makes it from "
                "ps-lite's source\n",
                program.c_str());
    return peers;
  }
  peers.push_back({"dense", "ps-lite, values under few keys, added"});
  peers.push_back({"table", "ps-lite, a key for each, its default server"});
  for (auto& peer : peers) {
    peer.program = std::make_unique<DrivenPeer>(
      peer.name, std::vector<std::string>{program, peer.way});
    peer.version = peer.program->version();
  }
  return peers;
}

/// A peer that fails is told of and left out; our own figures are worth having
/// without it.
void ask(std::vector<Peer>& peers, uint64_t bytes) {
  for (size_t i = 0; i < peers.size();) {
    try {
      const auto count = peers[i].way == "table" ? 1u : iterations;
      peers[i].us.push_back(peers[i].program->run({bytes, count}).us);
      ++i;
    } catch (const InputError& failure) {
      std::printf("left out from here on: %s\n", failure.what());
      peers.erase(peers.begin() + static_cast<ptrdiff_t>(i));
    }
  }
}

double ratio_of(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> ratios;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    ratios.push_back(a[i] / b[i]);
  return median_of(std::move(ratios));
}

nlohmann::json rows_of(uint64_t bytes, const std::vector<double>& own,
                       const std::vector<double>& limit,
                       const std::vector<Peer>& peers) {
  nlohmann::json row = {{"name", "push, update and pull, dense"},
                        {"members", 2},
                        {"bytes", bytes},
                        {"ours_us", median_of(own)},
                        {"spread", spread_of(own)},
                        {"peer", nullptr},
                        {"peer_version", nullptr},
                        {"peer_us", nullptr},
                        {"ratio", nullptr},
                        {"limit_share", ratio_of(limit, own)}};
  auto rows = nlohmann::json::array();
  if (peers.empty())
    rows.push_back(row);
  for (const auto& peer : peers) {
    row["peer"] = peer.name;
    row["peer_version"] = peer.version;
    row["peer_us"] = median_of(peer.us);
    row["ratio"] = ratio_of(peer.us, own);
    rows.push_back(row);
  }
  return rows;
}

void print(const nlohmann::json& rows) {
  std::printf("%-30s %9s %7s %6s  %-44s %9s %6s\n", "what", "us", "spread",
              "limit", "peer", "us", "ratio");
  for (const auto& row : rows) {
    std::printf("%-30s %9.0f %5.1f %% %4.0f %%",
                row["name"].get<std::string>().c_str(),
                row["ours_us"].get<double>(), row["spread"].get<double>() * 100,
                row["limit_share"].get<double>() * 100);
    if (!row["peer"].is_null())
      std::printf("  %-44s %9.0f %6.2f", row["peer"].get<std::string>().c_str(),
                  row["peer_us"].get<double>(), row["ratio"].get<double>());
    std::printf("\n");
  }
}

} // namespace

int run_bench_parameter_server(const Settings& settings) {
  const auto isa = select_isa("auto");
  const auto bytes = settings.bench.exchanged_bytes;
  auto peers = peers_of(settings.bench.peers); // before any thread is started
  std::printf(
    "push of %llu float32, SGD, pull of the result, between the processes of a "
    "worker and\na shard; weights compared; %s. median of %u alternating "
    "rounds of %u steps,\nspread: the middle half. limit: one thread updates "
    "and copies, nothing is sent.\nratio: times the peer's speed\n",
    static_cast<unsigned long long>(bytes / sizeof(float)), isa.c_str(),
    settings.bench.rounds, steps);
  std::fflush(stdout);
  const auto expected = expected_weights(bytes);
  std::vector<double> own;
  std::vector<double> limit;
  Limit machine{bytes};
  for (uint32_t round = 0; round < settings.bench.rounds; ++round) {
    own.push_back(own_round(bytes, expected));
    limit.push_back(machine.round());
    ask(peers, bytes);
  }
  const auto rows = rows_of(bytes, own, limit, peers);
  print(rows);
  if (!settings.json.empty()) {
    const auto text = rows.dump(2) + "\n";
    write_atomically(settings.json, {std::as_bytes(std::span{text})});
  }
  return 0;
}

} // namespace troupe
