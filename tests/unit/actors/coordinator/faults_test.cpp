// Symptom: whoever reached a coordinator could have its roles killed. Cause: it
// obeyed InjectFault in every run.

#include "actors/compute/fault_trigger.hpp"
#include "actors/control/actor_node.hpp"
#include "actors/launch/local_coordinator.hpp"
#include "tests/unit/actors/small_job.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(coordinator_faults)

namespace {

/// What a coordinator answers that has not begun.
std::string
answer(bool allow_faults,
       const InjectFault& fault = {{RoleKind::coordinator, 0}, "push"}) {
  RunOptions options;
  options.job = test::small_job();
  options.allow_faults = allow_faults;
  const auto data = test::small_data();
  ActorConfig config{Credentials{}};
  caf::actor_system system{config};
  caf::scoped_actor self{system};
  const auto coordinator = start_coordinator(
    system, options, data, {nullptr, nullptr, make_job_id(), 1}, options.began);
  std::string said;
  self->request(coordinator.actor, std::chrono::seconds{20}, fault)
    .receive([&](const Note& x) { said = x.line; },
             [&](const caf::error& why) { said = caf::to_string(why); });
  caf::anon_send_exit(coordinator.actor, caf::exit_reason::user_shutdown);
  return said;
}

} // namespace

BOOST_AUTO_TEST_CASE(faults_are_obeyed_only_where_the_run_was_started_so) {
  BOOST_TEST(answer(false).find("--allow-faults") != std::string::npos);
  BOOST_TEST(answer(true).find("--allow-faults") == std::string::npos);
}

// Symptom: a worker without shards was said not to pull "as its chains stand",
// and a stage, too.
BOOST_AUTO_TEST_CASE(phases_that_a_role_never_goes_through_are_not_its_own) {
  const auto said = answer(true, {{RoleKind::worker, 0}, "pull"});
  BOOST_TEST(said.find(
               "worker:0 has no phase pull, but at-once, compute, push, "
               "reduce, seal")
               != std::string::npos,
             said);
}

BOOST_AUTO_TEST_CASE(a_role_that_was_not_started_so_arms_nothing) {
  FaultTrigger trigger{false, false};
  trigger.arm({FaultKind::kill, StepPhase::push, 0, 0});
  BOOST_CHECK_NO_THROW(trigger.pass(StepPhase::push));
  FaultTrigger obeys{false};
  obeys.arm({FaultKind::kill, StepPhase::push, 0, 0});
  BOOST_CHECK_THROW(obeys.pass(StepPhase::push), std::runtime_error);
}

BOOST_AUTO_TEST_SUITE_END()
