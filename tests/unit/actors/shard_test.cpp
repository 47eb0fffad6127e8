#include "actors/actor_node.hpp"
#include "actors/shard.hpp"
#include "small_job.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;

namespace {

constexpr auto patience = 30s;
constexpr uint64_t job_id = 9;
const Fence fence{job_id, 1, 1};

JobOptions served() {
  auto options = small_job();
  options.strategy = Strategy::parameter_server;
  return options;
}

/// A shard whose coordinator and workers are this test.
struct Bench {
  Bench()
    : config(Credentials{}),
      system(config),
      coordinator(system),
      job(std::make_shared<const Job>(served(), 500)) {
    RoleContext context;
    context.job = job;
    context.job_id = job_id;
    context.role = {RoleKind::shard, 0};
    context.incarnation = 1;
    context.coordinator = caf::actor_cast<coordinator_actor>(coordinator.ptr());
    context.metrics = std::make_shared<MetricRegistry>();
    store = std::make_shared<ShardStore>(
      *job, job->plan.role(context.role).slices, job_id, -1);
    shard = spawn_shard(system, context, store);
  }
  ~Bench() { caf::anon_send_exit(shard, caf::exit_reason::user_shutdown); }

  void start() {
    coordinator->send(shard, Propose{fence});
    expect<Sealed>(coordinator);
    Activate activation;
    activation.fence = fence;
    coordinator->send(shard, activation);
  }

  template <class Message>
  static Message expect(caf::scoped_actor& at) {
    Message got;
    bool late = false;
    at->receive([&](const Message& x) { got = x; },
                caf::after(patience) >> [&] { late = true; });
    BOOST_REQUIRE(!late);
    return got;
  }

  ActorConfig config;
  caf::actor_system system;
  caf::scoped_actor coordinator;
  std::shared_ptr<const Job> job;
  std::shared_ptr<ShardStore> store;
  shard_actor shard;
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(shard, Bench)

// Symptom: a run stood still once in some 1,500. Cause: the executor commits
// version s + 1 before the actor hears of it; a worker that pulled it in
// between pushed step s + 1 to a ledger that still stood at s.
BOOST_AUTO_TEST_CASE(a_version_that_only_the_store_knows_is_not_served) {
  start();
  for (size_t i = 0; i < store->slices().size(); ++i) {
    store->begin(i);
    store->commit(i); // as the executor does, before the actor is told
  }
  caf::scoped_actor early{system};
  caf::scoped_actor late{system};
  early->send(shard, Pull{fence, {RoleKind::worker, 0}, 1});
  late->send(shard, Pull{fence, {RoleKind::worker, 1}, 0});
  expect<Pulled>(late); // so the first request has been dealt with
  BOOST_TEST(!early->has_next_message());
}

BOOST_AUTO_TEST_SUITE_END()
