#include "actors/replica/epoch_group.hpp"
#include "kernels/base/steady_clock.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <functional>
#include <thread>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(epoch_group)

namespace {

/// Notes who is lost to it and why it is called off.
class NotingReducer final : public Reducer {
public:
  std::vector<uint32_t> lost_members;
  std::vector<std::string> reasons;
  Deadline deadline; ///< of the newest sum
  std::function<void()> at_end = [] {};

  ~NotingReducer() override { at_end(); }

  void set_buckets(std::vector<std::pair<uint64_t, uint64_t>>,
                   uint64_t) override {}
  void start(ReduceStep) override {}
  void ready(uint32_t) override {}
  void progress() override {}
  CollectiveResult finish(Deadline given) override {
    deadline = given;
    return {};
  }
  void abort(const std::string& reason) override { reasons.push_back(reason); }
  void lost(uint32_t member) override { lost_members.push_back(member); }
  CollectiveResult all_reduce(float*, size_t, Deadline) override { return {}; }
  CollectiveResult broadcast(float*, size_t, uint32_t, Deadline) override {
    return {};
  }
  std::string name() const override { return "noting"; }
};

struct Fixture {
  FaultTrigger faults{false};
  EpochGroup group{faults, std::chrono::minutes{7}};

  std::pair<std::shared_ptr<ReplicaGroup>, NotingReducer*> made() {
    auto made = std::make_shared<ReplicaGroup>();
    auto reducer = std::make_unique<NotingReducer>();
    auto* noting = reducer.get();
    made->reducer = std::move(reducer);
    return {made, noting};
  }
};

using Numbers = std::vector<uint32_t>;

} // namespace

BOOST_FIXTURE_TEST_CASE(a_member_that_is_lost_is_lost_to_its_group, Fixture) {
  auto [first, noting] = made();
  group.join(first);
  group.lost(2, "worker:2 has died");
  BOOST_TEST(noting->lost_members == Numbers{2});
  BOOST_TEST(noting->reasons.size() == 1);
  StepOutcome outcome;
  BOOST_TEST(!group.can_begin(outcome));
  BOOST_TEST(outcome.failure == "worker:2 has died");
}

BOOST_FIXTURE_TEST_CASE(a_sum_is_waited_for_as_long_as_is_given, Fixture) {
  auto [first, noting] = made();
  group.join(first);
  StepOutcome outcome;
  BOOST_TEST(group.reduce({}, 1, {}, outcome));
  const auto left = noting->deadline - SteadyClock::now();
  BOOST_TEST((left > std::chrono::minutes{6}));
  BOOST_TEST((left <= std::chrono::minutes{7}));
}

BOOST_FIXTURE_TEST_CASE(a_group_that_takes_long_to_end_keeps_nobody_waiting,
                        Fixture) {
  auto [first, noting] = made();
  bool asked = false;
  noting->at_end = [&] {
    std::thread([&] { // another one than the executor's asks meanwhile
      StepOutcome outcome;
      asked = group.can_begin(outcome);
    })
      .join();
  };
  group.join(std::move(first));
  group.join(made().first);
  BOOST_TEST(asked);
}

BOOST_FIXTURE_TEST_CASE(
  a_member_lost_while_its_group_is_formed_is_not_one_of_the_group_before,
  Fixture) {
  auto [small, before] = made();
  group.join(small);
  group.expect();
  group.lost(1, "worker:1 has died"); // of the new group: the other is of one
  BOOST_TEST(before->lost_members.empty());
  BOOST_TEST(before->reasons.empty());
  auto [large, after] = made();
  group.join(large);
  BOOST_TEST(after->lost_members == Numbers{1});
  StepOutcome outcome;
  BOOST_TEST(!group.can_begin(outcome));
  BOOST_TEST(outcome.failure == "worker:1 has died");
}

BOOST_FIXTURE_TEST_CASE(who_was_lost_to_a_group_that_never_came_is_forgotten,
                        Fixture) {
  group.expect();
  group.lost(1, "worker:1 has died");
  group.expect(); // another epoch
  auto [other, noting] = made();
  group.join(other);
  BOOST_TEST(noting->lost_members.empty());
  StepOutcome outcome;
  BOOST_TEST(group.can_begin(outcome));
}

BOOST_FIXTURE_TEST_CASE(nobody_is_lost_to_who_is_alone, Fixture) {
  group.expect();
  group.lost(1, "worker:1 has died");
  group.join(nullptr);
  StepOutcome outcome;
  BOOST_TEST(group.can_begin(outcome));
}

BOOST_AUTO_TEST_SUITE_END()
