#include "actors/compute/rank_statistics.hpp"

#include "kernels/base/require.hpp"
#include "kernels/engine/parameter_gate.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

class RankStatistics::Seat final : public kernels::StatisticsExchange {
public:
  Seat(RankStatistics& all, uint32_t rank) : all_(all), rank_(rank) {}

  uint64_t sum(double* values, size_t count, uint64_t rows) override {
    return all_.sum(rank_, values, count, rows);
  }

private:
  RankStatistics& all_;
  uint32_t rank_;
};

RankStatistics::RankStatistics(uint32_t virtual_ranks,
                               const std::vector<uint32_t>& ranks,
                               RankPeers* peers)
  : peers_(peers), shares_(virtual_ranks) {
  for (auto rank : ranks)
    seats_.emplace(rank, std::make_unique<Seat>(*this, rank));
}

RankStatistics::~RankStatistics() = default;

kernels::StatisticsExchange& RankStatistics::of(uint32_t rank) {
  return *seats_.at(rank);
}

void RankStatistics::abandon() {
  const std::lock_guard lock{mutex_};
  abandoned_ = true;
  changed_.notify_all();
}

/// Whoever comes last adds up; a rank may be in the next sum while others still
/// read this one, which the last of them to come there replaces.
uint64_t RankStatistics::sum(uint32_t rank, double* values, size_t count,
                             uint64_t rows) {
  std::unique_lock lock{mutex_};
  shares_.put(rank, {{values, values + count}, rows});
  const auto own = made_;
  if (shares_.size() == seats_.size()) {
    if (peers_ != nullptr)
      peers_->gather(shares_); // all of this member wait: nobody else can fail
    result_ = shares_.take_sum();
    ++made_;
    changed_.notify_all();
  }
  changed_.wait(lock, [&] { return made_ > own || abandoned_; });
  if (abandoned_)
    throw PassAbandoned{};
  kernels::require(result_.values.size() == count,
                   "ranks at different operators");
  std::ranges::copy(result_.values, values);
  return result_.rows;
}

} // namespace troupe
