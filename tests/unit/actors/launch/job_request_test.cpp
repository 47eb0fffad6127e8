// Symptom: a role that asked for the job while its coordinator was deposed
// ended with "refused: broken_promise". Cause: an actor that ends breaks the
// promises that it has not kept, and that was taken for a refusal.

#include "actors/control/actor_node.hpp"
#include "actors/control/control_line.hpp"
#include "actors/launch/job_request.hpp"
#include "actors/launch/local_coordinator.hpp"
#include "actors/wire/ends_with_scope.hpp"
#include "kernels/base/error.hpp"
#include "tests/unit/actors/job_certificates.hpp"
#include "tests/unit/actors/small_job.hpp"

#include <boost/test/unit_test.hpp>

#include <future>

using namespace troupe;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(job_request)

namespace {

constexpr RoleId asked_role{RoleKind::worker, 0};

/// A coordinator with a system of its own, as in a process of its own.
struct Leading {
  Leading(uint64_t job, uint64_t term,
          const JobOptions& what = test::small_job())
    : config(test::job("own", coordinator_name)), system(config), self(system) {
    RunOptions options;
    options.job = what;
    coordinator = start_coordinator(system, options, test::small_data(),
                                    {nullptr, nullptr, job, term},
                                    options.began)
                    .actor;
    address = publish(system,
                      caf::actor_cast<caf::strong_actor_ptr>(coordinator),
                      "127.0.0.1:0");
  }
  ~Leading() { end(); }

  void end() { caf::anon_send_exit(coordinator, caf::exit_reason::kill); }

  ActorConfig config;
  caf::actor_system system;
  caf::scoped_actor self;
  coordinator_actor coordinator;
  std::string address;
};

Hello hello_of(uint32_t process) {
  Hello hello{asked_role};
  hello.process = process;
  return hello;
}

} // namespace

BOOST_AUTO_TEST_CASE(who_asks_one_that_is_deposed_asks_the_next) {
  const auto job = make_job_id();
  Leading first{job, 1};
  Leading next{job, 2};
  // Another process has the name for now, so that answers are promised.
  caf::scoped_actor other{first.system};
  other->request(first.coordinator, 5s, hello_of(1))
    .receive([](const JobInfo&) {},
             [](const caf::error& why) { BOOST_FAIL(caf::to_string(why)); });
  ActorConfig config{test::job("own", test::worker(0))};
  caf::actor_system system{config};
  ControlLineOptions line;
  line.address = first.address + ',' + next.address;
  line.first =
    caf::actor_cast<coordinator_actor>(connect(system, first.address, 5'000));
  line.role = asked_role;
  const auto coordinator = spawn_control_line(system, std::move(line));
  const EndsWithScope end{caf::actor_cast<caf::strong_actor_ptr>(coordinator)};
  auto answer = std::async(std::launch::async, [&] {
    caf::scoped_actor self{system};
    return ask_for_job(self, coordinator, asked_role, 20s);
  });
  // What is asked after it on the same connection is answered after it came.
  caf::scoped_actor self{system};
  for (int i = 0; i < 2; ++i)
    self->request(coordinator, 5s, Hello{asked_role, message_revision, true})
      .receive([](const JobInfo&) {},
               [](const caf::error& why) { BOOST_FAIL(caf::to_string(why)); });
  BOOST_TEST((answer.wait_for(0s) == std::future_status::timeout));
  caf::error broken;
  auto witness = first.self->request(first.coordinator, 5s, hello_of(2));
  first.end();
  witness.receive([](const JobInfo&) {},
                  [&](const caf::error& why) { broken = why; });
  BOOST_TEST((broken == caf::sec::broken_promise));
  JobInfo given;
  BOOST_REQUIRE_NO_THROW(given = answer.get());
  BOOST_TEST(given.job == job);
  BOOST_TEST(given.term == 2u);
}

// Symptom: the 4,000 signs of life a second of a thousand members were most of
// what their coordinator did.
BOOST_AUTO_TEST_CASE(who_joins_many_is_told_to_give_signs_more_seldom) {
  const auto sign_ms = [](uint32_t workers, uint64_t loss_ms) {
    auto what = test::small_job();
    what.strategy = Strategy::parameter_server;
    what.processes = true;
    what.workers = what.virtual_ranks = workers;
    what.shards = 1;
    what.global_batch = workers;
    what.deadlines.loss_ms = loss_ms;
    Leading leading{make_job_id(), 1, what};
    caf::scoped_actor self{leading.system};
    const auto given = ask_for_job(self, leading.coordinator, asked_role, 20s);
    // Who has joined hears it with each answer, as the number changes.
    self
      ->request(leading.coordinator, 5s,
                Hello{asked_role, message_revision, true})
      .receive(
        [&](const JobInfo& again) {
          BOOST_TEST(again.sign_ms == given.sign_ms);
        },
        [](const caf::error& why) { BOOST_FAIL(caf::to_string(why)); });
    return given.sign_ms;
  };
  BOOST_TEST(sign_ms(2, 0) == 250u);
  BOOST_TEST(sign_ms(127, 0) == 250u);
  BOOST_TEST(sign_ms(255, 0) == 500u);
  BOOST_TEST(sign_ms(255, 1'000) == 250u); // four still fit into it
}

BOOST_AUTO_TEST_CASE(a_refusal_is_told_at_once) {
  Leading leading{make_job_id(), 1};
  caf::scoped_actor self{leading.system};
  BOOST_CHECK_EXCEPTION(ask_for_job(self, leading.coordinator,
                                    {RoleKind::shard, 7}, 20s),
                        InputError, [](const InputError& refusal) {
                          return std::string{refusal.what()}.starts_with(
                            "ps:7: the coordinator refused: ");
                        });
}

BOOST_AUTO_TEST_SUITE_END()
