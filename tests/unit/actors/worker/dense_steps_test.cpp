#include "actors/replica/local_groups.hpp"
#include "actors/worker/dense_steps.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <deque>
#include <future>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(dense_steps)

namespace {

std::shared_ptr<const Job> job_of() {
  JobOptions options;
  options.model = "dlrm";
  options.data = "synthetic:clicks?samples=400&buckets=3000";
  options.strategy = Strategy::parameter_server;
  options.dense = "all_reduced";
  options.devices = {"cpu:0"};
  return std::make_shared<const Job>(
    options, load_dataset(parse_data_spec(options.data)));
}

/// Any gradient, the same for equal nodes; whole numbers, so that sums of some
/// of them are exact.
NodeSum some_sum(const Job& job, RankRange node) {
  auto sum = std::make_shared<SumBuffer>(job.layout.total, nullptr);
  for (auto rank = node.lo; rank < node.hi; ++rank)
    for (size_t i = 0; i < sum->size(); ++i)
      sum->data()[i] += static_cast<float>((i * 7 + rank * 13) % 101) - 50;
  return {node, sum};
}

/// Workers that reduce together, each on a thread of its own.
class Workers {
public:
  explicit Workers(size_t count) : job(job_of()), groups_(job) {
    for (size_t i = 0; i < count; ++i)
      add();
  }

  void add() {
    RoleContext context;
    context.job = job;
    executors_.push_back(std::make_unique<Executor>("test", 1));
    steps.emplace_back(context, *executors_.back());
  }

  /// `held` by worker. Returns the outcome of each.
  std::vector<StepOutcome>
  begin(uint64_t version, std::optional<uint32_t> source = {},
        const std::vector<std::vector<RankRange>>& held = {}) {
    const auto count = static_cast<uint32_t>(steps.size());
    ++fence_.epoch;
    ReplicaStart start;
    for (uint32_t i = 0; i < count; ++i)
      start.members.push_back(
        {ranks_of_worker(i, count, job->options.virtual_ranks),
         held.empty() ? std::vector<RankRange>{} : held[i]});
    for (start.rank = 0; start.rank < count; ++start.rank) {
      auto& own = steps[start.rank];
      own.begin_epoch(start);
      groups_.form({fence_, own.layout(), {}, own.arrays(), {}},
                   [&](std::shared_ptr<ReplicaGroup> group) {
                     own.group().join(std::move(group));
                   });
    }
    return all([&](DenseSteps& own) { return own.begin(version, source); });
  }

  /// `leaf_by_leaf`: sums of single ranks instead of whole nodes.
  std::vector<StepOutcome> take(uint64_t step, bool leaf_by_leaf = false) {
    return all([&, leaf_by_leaf](DenseSteps& own) {
      std::vector<NodeSum> sums;
      for (const auto& nodes : {own.share().left, own.share().held})
        for (auto node : nodes)
          for (auto lo = node.lo; lo < node.hi;
               lo += leaf_by_leaf ? 1 : node.size())
            sums.push_back(
              some_sum(*job, leaf_by_leaf ? RankRange{lo, lo + 1} : node));
      return own.take(step, sums, 100);
    });
  }

  /// Of the newest version, tables left out.
  std::vector<float> values(size_t worker) {
    std::vector<float> out;
    const auto* all = steps[worker].parameters(steps[worker].newest());
    for (const auto& slice : job->plan.slices) {
      const auto* at = all + job->flat_offset(slice);
      out.insert(out.end(), at, at + slice.count);
    }
    return out;
  }

  std::shared_ptr<const Job> job;
  std::deque<DenseSteps> steps;

private:
  std::vector<StepOutcome>
  all(const std::function<StepOutcome(DenseSteps&)>& call) {
    std::vector<std::promise<StepOutcome>> promises(steps.size());
    for (size_t i = 0; i < steps.size(); ++i)
      executors_[i]->submit([&, i] { promises[i].set_value(call(steps[i])); });
    std::vector<StepOutcome> out;
    for (auto& promise : promises)
      out.push_back(promise.get_future().get());
    return out;
  }

  LocalGroups groups_;
  Fence fence_{1, 1, 0};
  std::vector<std::unique_ptr<Executor>> executors_;
};

bool all_taken(const std::vector<StepOutcome>& outcomes) {
  return std::ranges::all_of(outcomes, &StepOutcome::taken);
}

} // namespace

BOOST_AUTO_TEST_CASE(workers_have_the_bits_of_one) {
  Workers one{1};
  BOOST_REQUIRE(all_taken(one.begin(0)));
  const auto before = one.values(0);
  for (uint64_t step = 0; step < 3; ++step)
    BOOST_REQUIRE(all_taken(one.take(step)));
  BOOST_TEST((one.values(0) != before));
  for (size_t count : {2, 3, 4}) {
    Workers some{count};
    BOOST_REQUIRE(all_taken(some.begin(0)));
    for (uint64_t step = 0; step < 3; ++step)
      BOOST_REQUIRE(all_taken(some.take(step)));
    for (size_t i = 0; i < count; ++i) {
      BOOST_TEST((some.values(i) == one.values(0)));
      BOOST_TEST(some.steps[i].held().front().oldest == 2u);
      BOOST_TEST(some.steps[i].held().front().newest == 3u);
    }
  }
}

BOOST_AUTO_TEST_CASE(leaves_are_summed_to_the_nodes_that_they_make_up) {
  for (size_t count : {1, 2, 3}) {
    Workers whole{count};
    Workers leaves{count};
    BOOST_REQUIRE(all_taken(whole.begin(0)));
    BOOST_REQUIRE(all_taken(leaves.begin(0)));
    BOOST_REQUIRE(all_taken(whole.take(0)));
    BOOST_REQUIRE(all_taken(leaves.take(0, true)));
    for (size_t i = 0; i < count; ++i)
      BOOST_TEST((leaves.values(i) == whole.values(i)));
  }
}

BOOST_AUTO_TEST_CASE(a_step_that_is_taken_again_has_the_same_bits) {
  Workers some{2};
  BOOST_REQUIRE(all_taken(some.begin(0)));
  BOOST_REQUIRE(all_taken(some.take(0)));
  const auto expected = some.values(1);
  // Back to before it: of one worker's nodes a sum is left.
  BOOST_REQUIRE(all_taken(some.begin(0, {}, {{{0, 2}}, {}})));
  BOOST_TEST((some.steps[0].share().held == std::vector{RankRange{0, 2}}));
  BOOST_TEST((some.steps[1].share().left == std::vector{RankRange{2, 4}}));
  BOOST_TEST(some.steps[0].newest() == 0u);
  BOOST_REQUIRE(all_taken(some.take(0)));
  BOOST_TEST((some.values(0) == expected));
  BOOST_TEST((some.values(1) == expected));
  BOOST_TEST(some.steps[0].share().held.empty());
}

BOOST_AUTO_TEST_CASE(a_newcomer_takes_values_and_state_from_a_peer) {
  Workers one{1};
  Workers some{1};
  for (auto* each : {&one, &some}) {
    BOOST_REQUIRE(all_taken(each->begin(0)));
    BOOST_REQUIRE(all_taken(each->take(0)));
    BOOST_REQUIRE(all_taken(each->take(1)));
  }
  some.add();
  BOOST_TEST(some.steps[1].newest() == 0u);
  BOOST_REQUIRE(all_taken(some.begin(2, 0)));
  BOOST_TEST((some.values(1) == some.values(0)));
  BOOST_REQUIRE(all_taken(some.take(2)));
  BOOST_REQUIRE(all_taken(one.take(2)));
  BOOST_TEST((some.values(1) == one.values(0)));
}

BOOST_AUTO_TEST_CASE(a_group_that_ends_leaves_the_version_before) {
  Workers some{2};
  BOOST_REQUIRE(all_taken(some.begin(0)));
  const auto before = some.values(0);
  some.steps[0].group().abort("the epoch has ended");
  const auto outcomes = some.take(0);
  BOOST_TEST(!outcomes[0].taken);
  BOOST_TEST(!outcomes[1].taken);
  BOOST_TEST(!outcomes[1].failure.empty());
  BOOST_TEST(some.steps[1].newest() == 0u);
  BOOST_TEST((some.values(1) == before));
  BOOST_REQUIRE(all_taken(some.begin(0)));
  BOOST_TEST(all_taken(some.take(0)));
}

BOOST_AUTO_TEST_SUITE_END()
