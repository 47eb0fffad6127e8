#include "actors/replica/local_groups.hpp"
#include "actors/worker/norm_group.hpp"
#include "kernels/engine/parameter_gate.hpp"

#include <boost/test/unit_test.hpp>

#include <deque>
#include <future>

using namespace troupe;

namespace norm_group {
namespace {

std::shared_ptr<const Job> job_of() {
  JobOptions options;
  options.model = R"({"sample": {"features": [4], "classes": 2}, "operators": [
    {"kind": "batch_norm", "cross_replica": true},
    {"kind": "dense", "units": "classes"},
    {"kind": "softmax_cross_entropy"}]})";
  options.data = "memory:";
  options.sample.features = {4};
  options.sample.classes = 2;
  options.samples = 60;
  options.global_batch = 12;
  options.virtual_ranks = 6;
  options.strategy = Strategy::parameter_server;
  options.devices = {"cpu:0"};
  return std::make_shared<const Job>(options);
}

/// Workers of one process, each on a thread of its own in a step.
struct Workers {
  explicit Workers(uint32_t count) : job(job_of()), groups(job) {
    for (uint32_t i = 0; i < count; ++i) {
      contexts.emplace_back();
      contexts.back().job = job;
      contexts.back().role = {RoleKind::worker, i};
      norms.emplace_back(contexts.back());
    }
  }

  void begin_epoch() {
    const auto count = static_cast<uint32_t>(norms.size());
    Activate activation;
    activation.fence = {1, 1, ++epoch};
    for (uint32_t i = 0; i < count; ++i) {
      activation.members.push_back({{RoleKind::worker, i}, {}, {}});
      activation.ranks.push_back(
        {{RoleKind::worker, i}, ranks_of_worker(i, count, 6)});
    }
    for (auto& own : norms)
      groups.form(own.begin_epoch(activation),
                  [&](std::shared_ptr<ReplicaGroup> group) {
                    own.group().join(std::move(group));
                  });
  }

  /// A step of two sums, in the way of LeafComputer; `stops` is gone then.
  std::vector<StepOutcome> step(std::optional<uint32_t> stops = {}) {
    std::vector<std::future<StepOutcome>> all;
    for (uint32_t i = 0; i < norms.size(); ++i)
      all.push_back(std::async(std::launch::async, [this, i, stops] {
        return norms[i].compute(0, [&](RankPeers* peers) {
          return pass(i, peers, stops == i);
        });
      }));
    std::vector<StepOutcome> out;
    for (auto& one : all)
      out.push_back(one.get());
    return out;
  }

  StepGradient pass(uint32_t worker, RankPeers* peers, bool stops) {
    StepGradient out;
    const auto own = ranks_of_worker(worker,
                                     static_cast<uint32_t>(norms.size()), 6);
    try {
      for (int sum = 0; sum < 2; ++sum) {
        RankShares shares{6};
        for (auto rank = own.lo; rank < own.hi; ++rank)
          shares.put(rank, {{1.0 / (rank + 3.0), 2.0}, 2});
        if (stops && sum == 1) {
          norms[worker].group().abort("worker:1 has died");
          throw PassAbandoned{};
        }
        if (peers != nullptr)
          peers->gather(shares);
        out.seconds = 0;
        out.leaves.push_back({own.lo, shares.take_sum().values.front(), 2});
      }
      if (peers != nullptr)
        peers->any(false);
    } catch (const PassAbandoned&) {
      out.abandoned = true;
    }
    return out;
  }

  std::shared_ptr<const Job> job;
  std::deque<RoleContext> contexts;
  std::deque<NormGroup> norms;
  LocalGroups groups;
  uint64_t epoch = 0;
};

double whole_sum() {
  return (1.0 / 3 + (1.0 / 4 + 1.0 / 5)) + (1.0 / 6 + (1.0 / 7 + 1.0 / 8));
}

} // namespace
} // namespace norm_group

BOOST_AUTO_TEST_SUITE(norm_group)

// I3
BOOST_AUTO_TEST_CASE(any_number_of_workers_has_the_sums_of_all_ranks) {
  std::vector<double> found;
  for (uint32_t count = 1; count <= 6; ++count) {
    Workers workers{count};
    workers.begin_epoch();
    for (int step = 0; step < 3; ++step)
      for (const auto& outcome : workers.step()) {
        BOOST_TEST(outcome.failure == "");
        BOOST_TEST(outcome.trouble == "");
        BOOST_REQUIRE(outcome.gradient.leaves.size() == 2u);
        for (const auto& leaf : outcome.gradient.leaves)
          found.push_back(leaf.loss_sum);
      }
  }
  for (auto sum : found)
    BOOST_TEST(sum == found.front());
  BOOST_TEST(found.front() == whole_sum(), boost::test_tools::tolerance(1e-15));
}

BOOST_AUTO_TEST_CASE(nobody_waits_for_a_worker_that_is_gone) {
  Workers workers{3};
  workers.begin_epoch();
  for (const auto& outcome : workers.step(1)) {
    BOOST_TEST(outcome.gradient.abandoned);
    BOOST_TEST(outcome.gradient.leaves.size() < 2u);
  }
  // Nor is anything begun in what is left of that group.
  for (const auto& outcome : workers.step()) {
    BOOST_TEST(outcome.gradient.abandoned);
    BOOST_TEST(outcome.failure != "");
  }
  workers.begin_epoch();
  for (const auto& outcome : workers.step())
    BOOST_TEST(!outcome.gradient.abandoned);
}

BOOST_AUTO_TEST_SUITE_END()
