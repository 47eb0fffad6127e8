#include "actors/coordinator/run_record.hpp"
#include "tests/unit/actors/small_job.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;
using namespace troupe::test;

namespace run_record {
namespace {

constexpr RoleId worker0{RoleKind::worker, 0};
constexpr RoleId worker1{RoleKind::worker, 1};
using Kinds = std::vector<std::string>;

struct Bench {
  Bench() { record.begin({}); }

  RunRecord record{std::make_shared<Job>(small_job(), 500)};
};

} // namespace
} // namespace run_record

BOOST_FIXTURE_TEST_SUITE(run_record, Bench)

BOOST_AUTO_TEST_CASE(a_recovery_is_named_after_what_made_up_for_the_loss) {
  record.lost(worker0, {}, 5);
  record.lost(worker1, {}, 5);
  BOOST_TEST((record.resumed({worker1})
              == Kinds{"ranks_taken_over", "worker_restarted"}));
  BOOST_TEST(record.resumed({worker0, worker1}).empty());
}

// An epoch that is decided, and left before its members hear of it, has
// undone its steps all the same.
BOOST_AUTO_TEST_CASE(a_rollback_names_what_is_lost_until_an_epoch_begins) {
  record.lost(worker0, {}, 5);
  record.rolled_back(0, 5);
  record.lost(worker1, {}, 0);
  BOOST_TEST(
    (record.resumed({worker0, worker1}) == Kinds{"rollback", "rollback"}));
  record.lost(worker1, {}, 2);
  BOOST_TEST((record.resumed({worker0, worker1}) == Kinds{"worker_restarted"}));
}

// Symptom: a run of ten steps made 0 samples/s. Cause: the account began anew
// with the end of the tenth step, also where no other followed.
BOOST_AUTO_TEST_CASE(a_short_run_is_measured_from_its_beginning) {
  const auto commit = [this](uint64_t step, int ms) {
    record.committed({.step = step, .samples = 50},
                     RunRecord::Clock::time_point{}
                       + std::chrono::milliseconds{ms});
  };
  for (uint64_t step = 0; step < 10; ++step)
    commit(step, static_cast<int>(100 * (step + 1)));
  BOOST_TEST(record.samples_per_second() == 500);
  commit(10, 1'010); // the first that counts in a longer run
  BOOST_TEST(record.samples_per_second() == 5000);
}

BOOST_AUTO_TEST_CASE(a_data_epoch_has_the_rate_of_its_own_steps) {
  const auto commit = [this](uint64_t step, int ms, double loss) {
    record.committed({.step = step, .loss = loss, .samples = 50},
                     RunRecord::Clock::time_point{}
                       + std::chrono::milliseconds{ms});
  };
  commit(0, 1'000, 4);
  commit(1, 2'000, 2);
  const auto slow = record.take_data_epoch();
  BOOST_TEST(slow.loss == 3);
  BOOST_TEST(slow.samples_per_second == 50);
  commit(2, 2'050, 1);
  commit(3, 2'100, 0);
  const auto fast = record.take_data_epoch();
  BOOST_TEST(fast.loss == 0.5);
  BOOST_TEST(fast.samples_per_second == 1000);
}

BOOST_AUTO_TEST_SUITE_END()
