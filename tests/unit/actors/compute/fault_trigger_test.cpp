#include "actors/compute/fault_trigger.hpp"

#include <boost/test/unit_test.hpp>

#include <stdexcept>
#include <vector>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(fault_trigger)

namespace {

/// A role that has a process, and what its trigger did and told.
struct Struck {
  FaultTrigger trigger{true};
  std::vector<uint32_t> cuts;
  std::vector<StepPhase> told;

  Struck() {
    trigger.cut = [this](uint32_t which) { cuts.push_back(which); };
    trigger.struck = [this](StepPhase phase) { told.push_back(phase); };
  }
};

} // namespace

BOOST_AUTO_TEST_CASE(a_link_is_cut_once_when_the_phase_comes_again) {
  Struck role;
  role.trigger.arm({FaultKind::cut, StepPhase::push, 2, 5});
  role.trigger.pass(StepPhase::pull);
  role.trigger.pass(StepPhase::push);
  role.trigger.pass(StepPhase::push);
  BOOST_TEST(role.cuts.empty());
  role.trigger.pass(StepPhase::push);
  role.trigger.pass(StepPhase::push);
  BOOST_TEST((role.cuts == std::vector<uint32_t>{5}));
  BOOST_TEST((role.told == std::vector{StepPhase::push}));
}

BOOST_AUTO_TEST_CASE(slowness_begins_with_the_phase_and_ends_by_itself) {
  Struck role;
  role.trigger.arm({FaultKind::slow, StepPhase::compute, 0, 60'000});
  BOOST_TEST(role.trigger.delay().count() == 0);
  role.trigger.pass(StepPhase::compute);
  BOOST_TEST(role.trigger.delay().count() > 0);
  BOOST_TEST((role.told == std::vector{StepPhase::compute}));
  role.trigger.arm({FaultKind::slow, StepPhase::at_once, 3, 0});
  BOOST_TEST(role.trigger.delay().count() == 0);
  BOOST_TEST(role.told.size() == 2u);
}

BOOST_AUTO_TEST_CASE(what_is_taken_back_does_not_strike) {
  Struck role;
  role.trigger.arm({FaultKind::cut, StepPhase::push});
  role.trigger.arm({});
  role.trigger.pass(StepPhase::push);
  BOOST_TEST(role.cuts.empty());
}

BOOST_AUTO_TEST_CASE(a_role_that_shares_its_process_throws) {
  FaultTrigger trigger{false};
  trigger.arm({FaultKind::kill, StepPhase::reduce});
  trigger.pass(StepPhase::pull);
  BOOST_CHECK_THROW(trigger.pass(StepPhase::reduce), std::runtime_error);
  trigger.pass(StepPhase::reduce);
}

BOOST_AUTO_TEST_SUITE_END()
