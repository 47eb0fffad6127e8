#include "apps/bench/reduce_table.hpp"

#include "kernels/files/atomic_file.hpp"

#include <algorithm>
#include <cstdio>
#include <span>

namespace troupe {

namespace {

/// Nearest rank.
double at(std::vector<double>& values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(
    share * static_cast<double>(values.size() - 1) + 0.5)];
}

/// The median over the rounds of a / b: what disturbs a round disturbs both.
double ratio_of(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> ratios;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    ratios.push_back(a[i] / b[i]);
  return median_of(std::move(ratios));
}

std::string described(const ReduceRow::Peer& peer) {
  auto text = peer.version + peer.name.substr(peer.name.find(','));
  if (!peer.algorithm.empty() && peer.algorithm != "auto")
    text += ", " + peer.algorithm;
  return text;
}

} // namespace

double median_of(std::vector<double> values) {
  return at(values, 0.5);
}

double spread_of(std::vector<double> values) {
  const auto low = at(values, 0.25);
  return (at(values, 0.75) - low) / at(values, 0.5);
}

std::string bytes_in_words(uint64_t bytes) {
  constexpr std::pair<uint64_t, const char*> units[] = {
    {1 << 30, " GiB"}, {1 << 20, " MiB"}, {1 << 10, " KiB"}};
  for (auto [size, name] : units)
    if (bytes >= size && bytes % size == 0)
      return std::to_string(bytes / size) + name;
  return std::to_string(bytes) + " B";
}

void ReduceTable::print_head(const std::string& isa, uint32_t rounds) {
  std::printf(
    "all-reduce of float32 sums in place, %s; every iteration's contents "
    "compared.\nmedian of %u alternating rounds; an iteration lasts until the "
    "last member has its\nsum. spread: the middle half of the rounds. limit, "
    "measured in the same rounds:\nmembers add shares in place and wait for "
    "nobody (memory, shm); as many bytes\nthrough plain loopback streams, "
    "nothing added (tcp). ratio: times the peer's speed.\n",
    isa.c_str(), rounds);
  std::printf("%-6s %7s %8s %-12s %10s %7s %6s  %-34s %10s %6s\n", "link",
              "members", "bytes", "reduction", "us", "spread", "limit", "peer",
              "us", "ratio");
}

void ReduceTable::print(const ReduceRow& row) {
  const auto share = row.limit.empty() ? 0 : ratio_of(row.limit, row.own);
  std::printf("%-6s %7u %8s %-12s %10.1f %5.1f %% %4.0f %%", row.link.c_str(),
              row.members, bytes_in_words(row.bytes).c_str(),
              row.reduction.c_str(), median_of(row.own),
              spread_of(row.own) * 100, share * 100);
  for (size_t i = 0; i < row.peers.size(); ++i) {
    const auto& peer = row.peers[i];
    if (i > 0)
      std::printf("\n%62s", "");
    std::printf("  %-34s %10.1f %6.2f", described(peer).c_str(),
                median_of(peer.us), ratio_of(peer.us, row.own));
  }
  std::printf("\n");
  std::fflush(stdout);
}

void ReduceTable::keep(const ReduceRow& row) {
  nlohmann::json out = {{"name",
                         "all-reduce " + row.link + " " + row.reduction},
                        {"members", row.members},
                        {"bytes", row.bytes},
                        {"ours_us", median_of(row.own)},
                        {"spread", spread_of(row.own)},
                        {"peer", nullptr},
                        {"peer_version", nullptr},
                        {"peer_us", nullptr},
                        {"ratio", nullptr},
                        {"limit_share", nullptr}};
  if (!row.limit.empty())
    out["limit_share"] = ratio_of(row.limit, row.own);
  if (row.peers.empty())
    rows_.push_back(out);
  for (const auto& peer : row.peers) {
    out["peer"] = peer.name;
    out["peer_version"] = peer.version;
    if (!peer.algorithm.empty() && peer.algorithm != "auto")
      out["peer"] = peer.name + ", " + peer.algorithm;
    out["peer_us"] = median_of(peer.us);
    out["ratio"] = ratio_of(peer.us, row.own);
    rows_.push_back(out);
  }
}

void ReduceTable::write(const std::string& path) const {
  const auto text = rows_.dump(2) + "\n";
  write_atomically(path, {std::as_bytes(std::span{text})});
}

} // namespace troupe
