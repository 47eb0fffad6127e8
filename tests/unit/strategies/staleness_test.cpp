#include "strategies/staleness.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <random>
#include <vector>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(staleness)

namespace {

/// What the bound promises, counted anew from a plain list of workers.
class Observed {
public:
  struct Worker {
    bool live = false;
    uint64_t consumed = 0;
    uint64_t held = 0;
  };

  explicit Observed(uint32_t workers) : workers(workers) {}

  uint64_t slowest() const {
    uint64_t least = ~uint64_t{0};
    for (const auto& worker : workers)
      if (worker.live)
        least = std::min(least, worker.consumed);
    return least == ~uint64_t{0} ? 0 : least;
  }
  std::set<uint32_t> live() const {
    std::set<uint32_t> out;
    for (uint32_t i = 0; i < workers.size(); ++i)
      if (workers[i].live)
        out.insert(i);
    return out;
  }

  std::vector<Worker> workers;
};

/// Random interleavings of grants, consumption, deaths and joins; whoever may
/// begin does so at once, so the bound is always under pressure.
void interleave(uint64_t bound, uint32_t seed) {
  std::mt19937 random{seed};
  constexpr uint32_t workers = 5;
  StalenessClocks clocks{bound};
  Observed seen{workers};
  uint64_t highest = 0;
  for (int event = 0; event < 2000; ++event) {
    const auto who = static_cast<uint32_t>(random() % workers);
    auto& worker = seen.workers[who];
    switch (random() % 16) {
      case 0: // dies
        clocks.leave(who);
        worker = {};
        break;
      case 1: // joins
        if (!worker.live) {
          const auto start = seen.slowest();
          worker = {true, start, 0};
          clocks.members(seen.live());
          BOOST_TEST(clocks.clock(who) == start);
        }
        break;
      case 2: // an epoch change takes a lease back
        if (worker.held > 0) {
          clocks.taken_back(who);
          --worker.held;
        }
        break;
      case 3:
      case 4:
      case 5:
        if (worker.held > 0) {
          clocks.consumed(who);
          --worker.held;
          ++worker.consumed;
        }
        break;
      default: {
        const auto lead = worker.consumed + worker.held - seen.slowest();
        const bool may = worker.live && lead <= bound;
        BOOST_REQUIRE_EQUAL(clocks.may_begin(who), may);
        if (may) {
          clocks.begin(who);
          ++worker.held;
          highest = std::max(highest, lead);
        }
      }
    }
    // I5: what is held was begun within the bound.
    for (const auto& each : seen.workers)
      if (each.live)
        BOOST_REQUIRE(each.consumed + each.held <= seen.slowest() + bound + 1);
    BOOST_REQUIRE_EQUAL(clocks.max_lead(), highest);
  }
  BOOST_TEST(highest == bound); // the bound was reached, and never passed
}

} // namespace

// I5
BOOST_AUTO_TEST_CASE(no_interleaving_gets_a_worker_beyond_the_bound) {
  for (uint64_t bound : {0, 1, 3, 8})
    for (uint32_t seed = 0; seed < 20; ++seed)
      interleave(bound, seed);
}

BOOST_AUTO_TEST_CASE(bound_zero_is_lockstep) {
  StalenessClocks clocks{0};
  clocks.members({0, 1});
  clocks.begin(0);
  BOOST_TEST(!clocks.may_begin(0));
  clocks.consumed(0);
  BOOST_TEST(!clocks.may_begin(0)); // the other has not had its turn
  clocks.begin(1);
  clocks.consumed(1);
  BOOST_TEST(clocks.may_begin(0));
}

BOOST_AUTO_TEST_CASE(a_dead_workers_clock_holds_nobody_back) {
  StalenessClocks clocks{1};
  clocks.members({0, 1});
  for (int i = 0; i < 2; ++i) {
    clocks.begin(0);
    clocks.consumed(0);
  }
  BOOST_TEST(!clocks.may_begin(0));
  clocks.leave(1);
  BOOST_TEST(clocks.may_begin(0));
}

BOOST_AUTO_TEST_CASE(a_joiner_starts_at_the_slowest_clock) {
  StalenessClocks clocks{4};
  clocks.members({0, 1});
  for (uint32_t worker : {0, 0, 0, 1, 1}) {
    clocks.begin(worker);
    clocks.consumed(worker);
  }
  clocks.members({0, 1, 2});
  BOOST_TEST(clocks.clock(2) == 2u);
}

BOOST_AUTO_TEST_CASE(without_a_bound_nobody_waits_and_the_lead_is_known) {
  StalenessClocks clocks{std::nullopt};
  clocks.members({0, 1});
  for (int i = 0; i < 100; ++i)
    clocks.begin(0);
  BOOST_TEST(clocks.may_begin(0));
  BOOST_TEST(clocks.max_lead() == 99u);
}

BOOST_AUTO_TEST_CASE(older_pushes_are_damped_more_and_fresh_ones_not_at_all) {
  using enum StalenessDamping;
  for (auto damping : {none, inverse_sqrt, inverse})
    BOOST_TEST(damped_rate(damping, 0) == 1.0f);
  BOOST_TEST(damped_rate(none, 99) == 1.0f);
  BOOST_TEST(damped_rate(inverse_sqrt, 3) == 0.5f);
  BOOST_TEST(damped_rate(inverse, 3) == 0.25f);
}

BOOST_AUTO_TEST_CASE(a_stranger_may_not_begin) {
  BOOST_TEST(!StalenessClocks{std::nullopt}.may_begin(7));
}

BOOST_AUTO_TEST_SUITE_END()
