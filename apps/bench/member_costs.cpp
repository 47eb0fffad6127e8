#include "apps/bench/member_costs.hpp"

#include "actors/collectives/member.hpp"
#include "actors/control/actor_node.hpp"
#include "apps/bench/reduce_pattern.hpp"
#include "apps/bench/reduce_table.hpp"
#include "kernels/base/buffer.hpp"
#include "kernels/base/error.hpp"
#include "kernels/base/seconds_since.hpp"

#include <algorithm>
#include <cstdio>

namespace troupe {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto deadline = std::chrono::seconds{30};
constexpr uint64_t bytes_of_a_round = 64 << 20;

/// Members of one group and their owners' vectors.
class Members {
public:
  Members(caf::actor_system& system, uint32_t count, uint64_t bytes)
    : self_(system),
      members_(spawn_collective_members(system, {count, deadline})),
      sum_(ReducePattern::sum(count, false)) {
    for (uint32_t rank = 0; rank < count; ++rank) {
      patterns_.push_back(ReducePattern::of(rank, false));
      vectors_.push_back(std::make_shared<Buffer>(bytes / sizeof(float)));
    }
  }

  ~Members() {
    for (const auto& member : members_)
      self_->send_exit(member, caf::exit_reason::user_shutdown);
  }

  /// Microseconds from the first request to the last answer.
  double run(uint32_t iteration) {
    const auto count = vectors_.front()->size();
    for (size_t rank = 0; rank < members_.size(); ++rank)
      patterns_[rank].fill(vectors_[rank]->data(), count, iteration);
    const auto begun = Clock::now();
    for (size_t rank = 0; rank < members_.size(); ++rank)
      self_->send(
        members_[rank],
        MemberVector{{vectors_[rank], vectors_[rank]->data(), count}});
    std::vector<MemberOutcome> outcomes;
    while (outcomes.size() < members_.size())
      self_->receive(
        [&](MemberOutcome& outcome) { outcomes.push_back(std::move(outcome)); },
        caf::after(deadline) >>
          [] { throw InputError("a member did not answer within 30 s"); });
    const auto took = seconds_since(begun);
    for (const auto& outcome : outcomes)
      if (outcome.result.end != CollectiveEnd::done
          || outcome.sum.size() != count
          || !sum_.equals(outcome.sum.data(), count, iteration))
        throw InputError("a member's answer is not the sum; nothing is "
                         "measured");
    return 1e6 * took;
  }

private:
  caf::scoped_actor self_;
  std::vector<collective_member_actor> members_;
  ReducePattern sum_;
  std::vector<ReducePattern> patterns_;
  std::vector<std::shared_ptr<Buffer>> vectors_;
};

/// Medians of the rounds.
std::vector<double> measure(caf::actor_system& system, uint32_t members,
                            uint64_t bytes, uint32_t rounds) {
  const auto iterations =
    std::clamp<uint64_t>(bytes_of_a_round / bytes / members, 3, 200);
  Members group{system, members, bytes};
  std::vector<double> medians;
  for (uint32_t round = 0; round <= rounds; ++round) {
    std::vector<double> times;
    for (uint32_t k = 0; k < iterations; ++k)
      times.push_back(group.run(k));
    if (round > 0) // the first one warms up
      medians.push_back(median_of(times));
  }
  return medians;
}

} // namespace

int run_member_costs(const Settings& settings) {
  const auto& options = settings.bench;
  ActorConfig config{Credentials{}};
  caf::actor_system system{config};
  std::printf("all-reduce of float32 sums between actors of one process; every "
              "sum compared.\nmedian of %u rounds, from the first request to "
              "the last answer; spread: their middle half\n",
              options.rounds);
  std::printf("%7s %8s %10s %7s %12s %14s\n", "members", "bytes", "us",
              "spread", "us a member", "ns a KiB of one");
  ReduceTable table;
  for (auto bytes : options.bytes)
    for (auto members : options.members) {
      ReduceRow row;
      row.link = "actors";
      row.reduction = "reproducible";
      row.members = members;
      row.bytes = bytes;
      row.own = measure(system, members, bytes, options.rounds);
      const auto us = median_of(row.own);
      std::printf("%7u %8s %10.1f %5.1f %% %12.2f %14.1f\n", members,
                  bytes_in_words(bytes).c_str(), us, spread_of(row.own) * 100,
                  us / members,
                  us * 1e3 / members / (static_cast<double>(bytes) / 1024));
      std::fflush(stdout);
      table.keep(row);
    }
  if (!settings.json.empty())
    table.write(settings.json);
  return 0;
}

} // namespace troupe
