#include "actors/lease_account.hpp"
#include "small_job.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;
using namespace troupe::test;

namespace {

constexpr RoleId worker0{RoleKind::worker, 0};

/// An asynchronous job of one worker and two shards, both of which consume:
/// 4 leases are a step.
struct Account {
  Account() : job(options()), leases(job) {
    leases.begin_epoch(seals, {{0, {}}, {1, {}}}, {{0, {}}, {1, {}}}, 0);
  }

  static JobOptions options() {
    auto job = small_job();
    job.strategy = Strategy::parameter_server;
    job.synchronisation = Synchronisation::async;
    job.shards = 2;
    job.epochs = 0;
    job.steps = 10;
    job.samples = 500;
    job.sample.features = {20};
    job.sample.classes = 4;
    return job;
  }

  /// Every shard applies these leases; steps are counted.
  void consume(uint64_t first, uint64_t end) {
    leases.ask(0, static_cast<uint32_t>(end - first));
    leases.hand_out();
    for (auto lease = first; lease < end; ++lease)
      for (uint32_t shard = 0; shard < 2; ++shard)
        steps += leases.applied({{}, {RoleKind::shard, shard}, lease, 0}, steps)
                     .has_value()
                   ? 1
                   : 0;
  }

  LeaseAccount::Resumed begin_epoch(const LeaseSet& first,
                                    const LeaseSet& second) {
    return leases.begin_epoch(seals, {{0, first}, {1, second}},
                              {{0, first}, {1, second}}, steps);
  }

  Job job;
  LeaseAccount leases;
  std::map<RoleId, Sealed> seals{{worker0, {}}};
  uint64_t steps = 0;
};

} // namespace

BOOST_AUTO_TEST_SUITE(lease_account)

BOOST_AUTO_TEST_CASE(an_epoch_without_losses_goes_on_from_where_it_was) {
  Account account;
  account.consume(0, 10);
  BOOST_TEST(account.steps == 2u);
  const auto resumed = account.begin_epoch({10, {}}, {10, {}});
  BOOST_TEST(resumed.lost == 0u);
  BOOST_TEST(resumed.step == 2u);
  BOOST_TEST(resumed.completed.empty());
}

BOOST_AUTO_TEST_CASE(an_epoch_completes_steps_whose_reports_were_lost) {
  Account account;
  account.consume(0, 6);
  account.leases.ask(0, 4);
  account.leases.hand_out();
  const auto resumed = account.begin_epoch({9, {}}, {8, {}});
  BOOST_TEST(resumed.lost == 0u);
  BOOST_TEST(resumed.completed.size() == 1u);
  BOOST_TEST(resumed.completed.front().step == 1u);
}

// docs/reliability.md, 5518: leases that no head holds any more were issued
// again without a word, and the count of steps passed the total.
BOOST_AUTO_TEST_CASE(consumed_leases_that_nobody_holds_are_undone) {
  Account account;
  account.consume(0, 10);
  const auto resumed = account.begin_epoch({10, {}}, {3, {}});
  BOOST_TEST(resumed.lost == 7u);
  BOOST_TEST(resumed.step == 0u);
  account.steps = resumed.step;
  account.consume(3, 40);
  BOOST_TEST(account.leases.done());
  BOOST_TEST(account.steps == 10u); // 3 are in the first of them
}

BOOST_AUTO_TEST_CASE(a_loss_within_a_step_undoes_no_step) {
  Account account;
  account.consume(0, 11);
  const auto resumed = account.begin_epoch({8, {10}}, {11, {}});
  BOOST_TEST(resumed.lost == 2u);
  BOOST_TEST(resumed.step == 2u);
  account.consume(8, 10);
  account.consume(11, 12);
  BOOST_TEST(account.steps == 3u);
}

BOOST_AUTO_TEST_SUITE_END()
