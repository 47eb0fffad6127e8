#include "actors/job/slice_update.hpp"
#include "apps/bench/driven_peer.hpp"
#include "apps/bench/reduce_table.hpp"
#include "apps/process/role_launch.hpp"
#include "apps/settings/commands.hpp"
#include "kernels/base/buffer.hpp"
#include "kernels/base/error.hpp"
#include "kernels/base/seconds_since.hpp"
#include "kernels/files/atomic_file.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace troupe {

namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t iterations = 5; // of a peer's round

/// What is exchanged.
struct Exchanged {
  std::string name;
  uint64_t bytes = 0;  ///< of values
  uint32_t steps = 40; ///< of an own round
  std::string model;
  std::string data;
  std::string peer_way; ///< of ps_lite_push_pull
  std::string peer_name;
  bool limited = false; ///< there is a limit to compare with
};

std::vector<Exchanged> exchanges_of(const BenchOptions& bench) {
  std::vector<Exchanged> all;
  all.push_back(
    {"push, update and pull, dense", bench.exchanged_bytes, 40,
     "sleep:0ms-" + std::to_string(bench.exchanged_bytes / sizeof(float)),
     "synthetic:digits?samples=64", "dense",
     "ps-lite, values under few keys, added", true});
  const auto pairs = std::to_string(bench.exchanged_pairs);
  const auto rows = "synthetic:rows?samples=1&ids=" + pairs;
  const auto bytes = bench.exchanged_pairs * sizeof(float);
  if (bench.exchanged_pairs == 0)
    return all;
  // One sample has all keys: each step pushes and pulls the same ones.
  all.push_back({"pairs, keys in a row", bytes, 20, "sleep:0ms-1",
                 rows + "&order=ascending&vocabulary=" + pairs, "pairs",
                 "ps-lite, a key for each, its server does nothing"});
  constexpr uint64_t spread = 32; // a page of 64 ids has some two
  const auto most = std::min(bench.exchanged_pairs * spread,
                             (uint64_t{1} << 31) - 1);
  all.push_back({"pairs, random keys", bytes, 10, "sleep:0ms-1",
                 rows + "&vocabulary=" + std::to_string(most), "pairs",
                 "ps-lite, a key for each, its server does nothing"});
  return all;
}

/// One worker and one shard, synchronous: a step pushes a gradient, updates as
/// many parameters and pulls them.
Settings job_settings(const Exchanged& what, const std::string& placement) {
  return parse_settings({"train",
                         "--quiet",
                         "--data",
                         what.data,
                         "--strategy",
                         "parameter_server",
                         "--workers",
                         "1",
                         "--ps",
                         "1",
                         placement,
                         "--model",
                         what.model,
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
                         std::to_string(what.steps),
                         "--eval-every",
                         "0"},
                        {});
}

nlohmann::json summary_of(const RunResult& result) {
  if (result.status != 0)
    throw InputError("bench parameter-server: " + result.line);
  return nlohmann::json::parse(result.summary);
}

/// What the parameters are at the end.
std::string outcome_of(const nlohmann::json& summary) {
  return summary["weights_sha256"].get<std::string>() + ", loss "
         + summary["final_loss"].dump();
}

/// What every round must end with: as a run in one process.
std::string expected_weights(const Exchanged& what) {
  const auto settings = job_settings(what, "--in-process");
  RunOptions run;
  run.job = settings.job;
  return outcome_of(summary_of(run_in_process(run, load_job_data(run.job))));
}

/// Returns what a push with its pull took, us.
double own_round(const Exchanged& what, const std::string& expected) {
  const auto settings = job_settings(what, "--processes");
  RunOptions run;
  run.job = settings.job;
  RoleOutput output{""};
  const auto summary = summary_of(launch_roles(settings, run, output));
  if (outcome_of(summary) != expected)
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
      times.push_back(1e6 * seconds_since(begin));
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

std::vector<Peer> peers_of(const std::string& folder, const Exchanged& what) {
  const auto program = std::filesystem::absolute(folder).string()
                       + "/ps_lite_push_pull";
  std::vector<Peer> peers;
  if (!std::filesystem::exists(program)) {
    std::printf("skipped: %s is not there; tests/peers/build makes it from "
                "ps-lite's source\n",
                program.c_str());
    return peers;
  }
  peers.push_back({what.peer_way, what.peer_name});
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

nlohmann::json rows_of(const Exchanged& what, const std::vector<double>& own,
                       const std::vector<double>& limit,
                       const std::vector<Peer>& peers) {
  nlohmann::json row = {{"name", what.name},        {"members", 2},
                        {"bytes", what.bytes},      {"ours_us", median_of(own)},
                        {"spread", spread_of(own)}, {"peer", nullptr},
                        {"peer_version", nullptr},  {"peer_us", nullptr},
                        {"ratio", nullptr},         {"limit_share", nullptr}};
  if (what.limited)
    row["limit_share"] = ratio_of(limit, own);
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

void print_head() {
  std::printf("%-30s %9s %7s %6s  %-48s %9s %6s\n", "what", "us", "spread",
              "limit", "peer", "us", "ratio");
}

void print(const nlohmann::json& rows) {
  for (const auto& row : rows) {
    std::printf("%-30s %9.0f %5.1f %%", row["name"].get<std::string>().c_str(),
                row["ours_us"].get<double>(),
                row["spread"].get<double>() * 100);
    if (row["limit_share"].is_null())
      std::printf(" %6s", "-");
    else
      std::printf(" %4.0f %%", row["limit_share"].get<double>() * 100);
    if (!row["peer"].is_null())
      std::printf("  %-48s %9.0f %6.2f", row["peer"].get<std::string>().c_str(),
                  row["peer_us"].get<double>(), row["ratio"].get<double>());
    std::printf("\n");
  }
  std::fflush(stdout);
}

nlohmann::json measure(const Exchanged& what, uint32_t rounds,
                       std::vector<Peer> peers) {
  const auto expected = expected_weights(what);
  std::vector<double> own;
  std::vector<double> limit;
  std::optional<Limit> machine;
  if (what.limited)
    machine.emplace(what.bytes);
  for (uint32_t round = 0; round < rounds; ++round) {
    own.push_back(own_round(what, expected));
    if (machine)
      limit.push_back(machine->round());
    ask(peers, what.bytes);
  }
  return rows_of(what, own, limit, peers);
}

} // namespace

int run_bench_parameter_server(const Settings& settings) {
  const auto isa = select_isa("auto");
  std::printf(
    "push of a gradient, SGD, pull of the result, between the processes of a "
    "worker and a\nshard; weights compared; %s. %llu float32 dense; %llu pairs "
    "of a key and a float32.\nmedian of %u alternating rounds of 10 to 40 "
    "steps, spread: the middle half. limit: one\nthread updates and copies, "
    "nothing is sent. ratio: times the peer's speed\n",
    isa.c_str(),
    static_cast<unsigned long long>(settings.bench.exchanged_bytes
                                    / sizeof(float)),
    static_cast<unsigned long long>(settings.bench.exchanged_pairs),
    settings.bench.rounds);
  print_head();
  std::fflush(stdout);
  const auto exchanges = exchanges_of(settings.bench);
  std::vector<std::vector<Peer>> peers; // before any thread is started
  for (const auto& what : exchanges)
    peers.push_back(peers_of(settings.bench.peers, what));
  auto all = nlohmann::json::array();
  for (size_t i = 0; i < exchanges.size(); ++i) {
    const auto rows = measure(exchanges[i], settings.bench.rounds,
                              std::move(peers[i]));
    print(rows);
    all.insert(all.end(), rows.begin(), rows.end());
  }
  if (!settings.json.empty()) {
    const auto text = all.dump(2) + "\n";
    write_atomically(settings.json, {std::as_bytes(std::span{text})});
  }
  return 0;
}

} // namespace troupe
