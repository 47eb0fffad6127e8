#include "actors/control/actor_node.hpp"
#include "actors/control/peer_directory.hpp"
#include "actors/launch/local_coordinator.hpp"
#include "actors/launch/role_supervisor.hpp"
#include "actors/launch/run_watch.hpp"
#include "tests/unit/actors/small_job.hpp"

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <mutex>

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(coordinator_switch)

namespace {

/// A journal that takes its time over the epoch in which a period begins: it is
/// synced only once the role that is killed meanwhile is known to be lost.
class SlowJournal : public JournalSink {
public:
  SlowJournal(caf::actor_system& system, uint64_t job, RoleId victim)
    : system_(system), job_(job), victim_(victim) {}

  void append(JournalEvent event, std::function<void()> synced) override {
    const auto body = nlohmann::json::parse(event.body);
    if (event.kind == "epoch" && body["consistency"]["period"] > period_) {
      period_ = body["consistency"]["period"];
      waiting_ = std::move(synced);
      auto victim = system_.registry().get(local_name(job_, victim_));
      caf::anon_send_exit(caf::actor_cast<caf::actor>(victim),
                          caf::exit_reason::kill);
      return;
    }
    if (event.kind == "death" && waiting_) {
      ++superseded_;
      std::exchange(waiting_, {})();
    }
    if (synced)
      synced();
  }
  int superseded() const { return superseded_; }

private:
  caf::actor_system& system_;
  uint64_t job_;
  RoleId victim_;
  uint64_t period_ = 0;
  std::function<void()> waiting_;
  std::atomic<int> superseded_ = 0;
};

JobOptions lone_job(Synchronisation first) {
  auto job = small_job();
  job.strategy = Strategy::parameter_server;
  job.synchronisation = first;
  job.staleness = first == Synchronisation::async ? 0 : -1;
  job.workers = 1;
  job.shards = 2;
  job.chain = 2; // an actor's memory dies with it
  job.virtual_ranks = 1;
  job.global_batch = 50;
  job.optimizer = "adam";
  job.rule.kind = OptimizerKind::adam;
  job.eval_every = 0;
  job.epochs = 400;
  return job;
}

/// The run's result; `mode` is asked for soon after it began.
RunResult run_superseded(const JobOptions& job, const std::string& mode,
                         RoleId victim, int& superseded) {
  RunOptions options;
  options.job = job;
  uint64_t step = 0;
  bool asked = false;
  options.events.progress = [&](const Progress& x) { step = x.step; };
  options.events.consistency = [&] {
    return step < 5 || std::exchange(asked, true) ? std::string{} : mode;
  };
  const auto data = small_data();
  ActorConfig config{Credentials{}};
  caf::actor_system system{config};
  caf::scoped_actor self{system};
  const auto id = make_job_id();
  auto journal = std::make_shared<SlowJournal>(system, id, victim);
  auto coordinator = start_coordinator(
    system, options, data, {journal, nullptr, id, 1}, options.began);
  SupervisorOptions supervise;
  for (auto kind : {RoleKind::shard, RoleKind::worker})
    for (const auto& role : coordinator.job->plan.of_kind(kind))
      supervise.roles.push_back(role.role);
  supervise.job = coordinator.job;
  supervise.data = data;
  supervise.job_id = id;
  auto supervisor = spawn_role_supervisor(system, coordinator.actor,
                                          std::move(supervise));
  auto result = watch(self, coordinator.actor, options.events);
  caf::anon_send_exit(supervisor, caf::exit_reason::user_shutdown);
  caf::anon_send_exit(coordinator.actor, caf::exit_reason::user_shutdown);
  superseded = journal->superseded();
  return result;
}

/// Whether some slices had a lease already as members changed: the others take
/// what is computed for it anew, from what all have by then (PROTOCOL 11).
bool halved_a_lease(const nlohmann::json& summary, const std::string& mode) {
  return mode != "sync"
         && summary["duplicates_dropped"].get<uint64_t>()
                % summary["plan"]["slices"].get<uint64_t>()
              != 0;
}

/// The result of a run that halved no lease, which hardly any does.
RunResult run_superseded_whole(const JobOptions& job, const std::string& mode,
                               RoleId victim, int& superseded) {
  for (int more = 4;; --more) {
    auto result = run_superseded(job, mode, victim, superseded);
    if (more == 0 || result.status != 0
        || !halved_a_lease(nlohmann::json::parse(result.summary), mode))
      return result;
  }
}

} // namespace

// A period is decided, but before the epoch that begins it is announced a
// member is lost: the next epoch begins it. Members hear of it by a proposal.
BOOST_AUTO_TEST_CASE(a_switch_that_is_superseded_takes_place_all_the_same) {
  struct Way {
    Synchronisation first;
    std::string to;
  };
  for (const auto& way : {Way{Synchronisation::sync, "staleness:0"},
                          Way{Synchronisation::async, "sync"}})
    for (auto victim : {RoleId{RoleKind::worker, 0}, RoleId{RoleKind::shard, 1},
                        RoleId{RoleKind::shard, 0}}) {
      const auto job = lone_job(way.first);
      const auto expected = run(job);
      int superseded = 0;
      const auto result = run_superseded_whole(job, way.to, victim, superseded);
      BOOST_TEST_CONTEXT(way.to << ", " << to_string(victim) << " dies") {
        BOOST_TEST_REQUIRE(result.status == 0, result.line);
        BOOST_TEST(superseded == 1);
        const auto summary = nlohmann::json::parse(result.summary);
        BOOST_TEST(!halved_a_lease(summary, way.to));
        const auto& switches = summary["consistency"]["switches"];
        BOOST_TEST_REQUIRE(switches.size() == 1u);
        BOOST_TEST(switches[0]["mode"] == way.to);
        BOOST_TEST(summary["steps_rolled_back"] == 0);
        BOOST_TEST(summary["samples"] == expected["samples"]);
        BOOST_TEST(summary["weights_sha256"] == expected["weights_sha256"]);
        BOOST_TEST(summary["state_sha256"] == expected["state_sha256"]);
      }
    }
}

BOOST_AUTO_TEST_SUITE_END()
