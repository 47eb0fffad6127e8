#include "strategies/step_phase.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(step_phase_of_a_role)

BOOST_AUTO_TEST_CASE(every_phase_is_found_by_its_name) {
  for (uint32_t i = 0; i < step_phases; ++i) {
    const auto phase = static_cast<StepPhase>(i);
    BOOST_TEST((step_phase(to_string(phase)) == phase));
  }
  BOOST_TEST((step_phase("lunch") == StepPhase::none));
}

BOOST_AUTO_TEST_CASE(each_kind_of_role_has_phases_of_its_own) {
  for (auto kind : {RoleKind::worker, RoleKind::shard})
    for (auto phase : phases_of(kind))
      BOOST_TEST((phase != StepPhase::none));
  BOOST_TEST(phases_of(RoleKind::worker).size() == 6u);
  BOOST_TEST(phases_of(RoleKind::shard).size() == 6u);
  BOOST_TEST((phases_of(RoleKind::reader) == std::vector{StepPhase::at_once}));
  BOOST_TEST(phases_of(RoleKind::evaluator).empty());
}

BOOST_AUTO_TEST_SUITE_END()
