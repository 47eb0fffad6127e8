// Symptom: on a host so busy that each answer of the coordinator took longer
// than half a second a role heard none of them, took its connection for dead
// after the time of loss, hung up, and was left out for that.

#include "actors/control/actor_node.hpp"
#include "actors/control/control_line.hpp"
#include "actors/wire/ends_with_scope.hpp"
#include "actors/wire/error_line.hpp"
#include "tests/unit/actors/job_certificates.hpp"
#include "tests/unit/actors/links/link_party.hpp"

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <utility>

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(control_line)

namespace {

/// Answers at once, after a while, or not.
struct LateCoordinator {
  explicit LateCoordinator(Credentials own = {}) : config(std::move(own)) {
    actor = system.spawn([this](caf::event_based_actor* self) {
      return caf::behavior{
        [this, self](const Hello&) -> caf::result<JobInfo> {
          auto promise = self->make_response_promise<JobInfo>();
          if (!silent)
            self->delayed_send(self, std::chrono::milliseconds{late_ms},
                               Completion{[this, promise]() mutable {
                                 JobInfo info{7, 0, {}, 1};
                                 info.loss_ms = 1'000;
                                 if (refuses)
                                   info.refused = "cannot take part";
                                 promise.deliver(info);
                                 ++answered;
                               }});
          return promise;
        },
        [](const Completion& x) { x.then(); },
      };
    });
  }
  ~LateCoordinator() { caf::anon_send_exit(actor, caf::exit_reason::kill); }

  coordinator_actor handle() const {
    return caf::actor_cast<coordinator_actor>(
      caf::actor_cast<caf::strong_actor_ptr>(actor));
  }

  ActorConfig config;
  caf::actor_system system{config};
  std::atomic<int> late_ms{0};
  std::atomic<int> answered{0};
  std::atomic<bool> silent{false};
  std::atomic<bool> refuses{false};
  caf::actor actor;
};

} // namespace

BOOST_AUTO_TEST_CASE(answers_that_come_late_are_answers) {
  LateCoordinator coordinator;
  std::atomic<int> hung_up{0};
  ControlLineOptions options;
  options.first = coordinator.handle();
  options.address = "127.0.0.1:1";
  options.role = {RoleKind::worker, 0};
  options.tell = [](const std::string&) {};
  options.hang_up = [&] { ++hung_up; };
  const auto line = spawn_control_line(coordinator.system, std::move(options));
  const EndsWithScope end{caf::actor_cast<caf::strong_actor_ptr>(line)};
  BOOST_TEST(soon([&] { return coordinator.answered >= 2; }));
  coordinator.late_ms = 800;
  BOOST_TEST(soon([&] { return coordinator.answered >= 14; }));
  BOOST_TEST(hung_up == 0);
  coordinator.silent = true; // none at all are none
  BOOST_TEST(soon([&] { return hung_up > 0; }));
}

// Symptom: roles hung up on a coordinator whose host had too much to do.
BOOST_AUTO_TEST_CASE(one_whose_host_answers_is_given_longer) {
  LateCoordinator coordinator;
  std::atomic<int> hung_up{0}, asked{0};
  std::atomic<int64_t> patience_ms{0};
  std::atomic<bool> cut{false};
  ControlLineOptions options;
  options.first = coordinator.handle();
  options.address = "127.0.0.1:1";
  options.role = {RoleKind::worker, 0};
  options.tell = [](const std::string&) {};
  options.hang_up = [&] { ++hung_up; };
  options.cut_off = [&](std::chrono::milliseconds patience) {
    patience_ms = patience.count();
    ++asked;
    return cut.load();
  };
  const auto line = spawn_control_line(coordinator.system, std::move(options));
  const EndsWithScope end{caf::actor_cast<caf::strong_actor_ptr>(line)};
  BOOST_TEST(soon([&] { return coordinator.answered >= 2; }));
  BOOST_TEST(asked == 0);
  coordinator.silent = true;
  BOOST_TEST(soon([&] { return asked >= 3; }));
  BOOST_TEST(hung_up == 0);
  BOOST_TEST(patience_ms == 500); // half of what counts as loss
  cut = true;
  BOOST_TEST(soon([&] { return hung_up > 0; }));
}

// Symptom: a role whose Join was answered by no stayed for ever, without a
// word.
BOOST_AUTO_TEST_CASE(one_that_is_refused_ends_with_the_line) {
  LateCoordinator coordinator;
  ControlLineOptions options;
  options.first = coordinator.handle();
  options.address = "127.0.0.1:1";
  options.role = {RoleKind::worker, 0};
  options.tell = [](const std::string&) {};
  const auto line = spawn_control_line(coordinator.system, std::move(options));
  caf::scoped_actor watcher{coordinator.system};
  watcher->monitor(line);
  BOOST_TEST(soon([&] { return coordinator.answered >= 2; }));
  coordinator.refuses = true;
  std::string why;
  watcher->receive(
    [&](const caf::down_msg& down) { why = line_of(down.reason); },
    caf::after(std::chrono::seconds{10}) >> [] {});
  BOOST_TEST(why == "cannot take part");
}

// Symptom: a coordinator that was started again, and read its data for longer
// than half a minute, came to a run that had ended.
BOOST_AUTO_TEST_CASE(one_that_is_on_its_way_is_waited_for) {
  LateCoordinator coordinator{job("own", worker(0))};
  std::atomic<bool> comes{true};
  std::atomic<int> asked{0};
  ControlLineOptions options;
  options.first = coordinator.handle();
  options.address = "127.0.0.1:1";
  options.role = {RoleKind::worker, 0};
  options.deadline = std::chrono::milliseconds{1};
  options.comes = [&] {
    ++asked;
    return comes.load();
  };
  const auto line = spawn_control_line(coordinator.system, std::move(options));
  caf::scoped_actor watcher{coordinator.system};
  watcher->monitor(line);
  caf::anon_send_exit(coordinator.actor, caf::exit_reason::kill);
  BOOST_TEST(soon([&] { return asked >= 3; }));
  comes = false;
  std::string why;
  watcher->receive(
    [&](const caf::down_msg& down) { why = line_of(down.reason); },
    caf::after(std::chrono::seconds{10}) >> [] {});
  BOOST_TEST(why == "the coordinator has been away for 0 s");
}

BOOST_AUTO_TEST_SUITE_END()
