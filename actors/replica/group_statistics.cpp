#include "actors/replica/group_statistics.hpp"

#include "kernels/base/require.hpp"
#include "kernels/engine/parameter_gate.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <optional>
#include <utility>

namespace troupe {
namespace {

constexpr size_t line = statistics_head;

void put(float* block, size_t at, const double* values, size_t count) {
  std::memcpy(block + at * floats_of_double, values, count * sizeof(double));
}

void take(const float* block, size_t at, double* values, size_t count) {
  std::memcpy(values, block + at * floats_of_double, count * sizeof(double));
}

/// Whether it is a count up to `most`; a peer may say anything.
bool is_count(double value, double most) {
  return value >= 0 && value <= most && value == std::floor(value);
}

constexpr double most_rows = 9007199254740992; // 2^53: doubles have all counts

} // namespace

GroupStatistics::GroupStatistics(std::vector<std::vector<uint32_t>> filled,
                                 uint32_t rank, size_t values, float* room,
                                 Calls calls)
  : filled_(std::move(filled)),
    rank_(rank),
    values_(values),
    all_have_samples_(std::ranges::none_of(
      filled_, [](const auto& ranks) { return ranks.empty(); })),
    room_(room),
    calls_(std::move(calls)) {}

void GroupStatistics::gather(RankShares& shares) {
  const auto count = shares.all().begin()->second.values.size();
  kernels::require(count <= values_, "a sum of more values than any norm has");
  take_turns({false, false, count}, &shares);
}

bool GroupStatistics::any(bool own) {
  Turn turn;
  while (!turn.over) // more than once only without samples
    turn = take_turns({true, own, 0}, nullptr);
  return turn.says;
}

/// Every member that has samples gives its block, one after the other. Returns
/// what all of them have come to. `shares` may be null: nobody asks for those.
GroupStatistics::Turn GroupStatistics::take_turns(const Turn& own,
                                                  RankShares* shares) {
  // Who has no samples knows no more than the most that may come.
  const auto values = all_have_samples_ ? own.count : values_;
  std::optional<Turn> all;
  if (!filled_[rank_].empty())
    all = own;
  auto* block = room_;
  for (uint32_t member = 0; member < filled_.size(); ++member) {
    const auto ranks = filled_[member].size();
    if (ranks == 0)
      continue;
    const auto count = floats_of_double * statistics_block(ranks, values);
    if (member == rank_)
      write(own, shares, block);
    if (!calls_.broadcast(block, count, member))
      throw PassAbandoned{};
    double head[3];
    take(block, 0, head, std::size(head));
    if (!is_count(head[2], static_cast<double>(values)))
      end(member, "says no count of a sum's values");
    const Turn turn{head[0] != 0, head[1] != 0, static_cast<uint64_t>(head[2])};
    if (!all)
      all = turn;
    if (turn.over != all->over || turn.count != all->count)
      end(member, "has come to another sum over virtual ranks than member "
                    + std::to_string(rank_));
    all->says = all->says || turn.says;
    if (shares != nullptr && member != rank_)
      read(member, turn.count, block, *shares);
    block += count;
  }
  kernels::require(all.has_value(), "a step without samples");
  return *all;
}

/// Members that do not agree now will not agree the next time.
void GroupStatistics::end(uint32_t member, const std::string& has) const {
  calls_.end("member " + std::to_string(member) + ' ' + has);
  throw PassAbandoned{};
}

void GroupStatistics::write(const Turn& turn, const RankShares* shares,
                            float* block) const {
  const double head[] = {turn.over ? 1.0 : 0.0, turn.says ? 1.0 : 0.0,
                         static_cast<double>(turn.count)};
  put(block, 0, head, std::size(head));
  if (turn.over)
    return;
  size_t at = line;
  for (auto rank : filled_[rank_]) {
    const auto& share = shares->all().at(rank);
    const auto rows = static_cast<double>(share.rows);
    kernels::require(share.values.size() == turn.count,
                     "ranks at different operators");
    put(block, at, &rows, 1);
    put(block, at + 1, share.values.data(), turn.count);
    at += 1 + turn.count;
  }
}

/// Puts what the member's ranks have beside the others'.
void GroupStatistics::read(uint32_t member, size_t count, const float* block,
                           RankShares& shares) const {
  size_t at = line;
  for (auto rank : filled_[member]) {
    double rows = 0;
    RankShare share;
    share.values.resize(count);
    take(block, at, &rows, 1);
    take(block, at + 1, share.values.data(), count);
    if (!is_count(rows, most_rows))
      end(member, "says no count of rows");
    share.rows = static_cast<uint64_t>(rows);
    shares.put(rank, std::move(share));
    at += 1 + count;
  }
}

} // namespace troupe
