#include "actors/control/actor_node.hpp"
#include "actors/replica/local_groups.hpp"
#include "actors/replica/replica_role.hpp"
#include "strategies/rank_tree.hpp"
#include "tests/unit/actors/small_job.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(replica_role)

namespace {

/// Says how often replicas have asked for a group.
class CountedGroups : public LocalGroups {
public:
  using LocalGroups::LocalGroups;
  void form(GroupWish wish,
            std::function<void(std::shared_ptr<ReplicaGroup>)> done) override {
    ++formed;
    LocalGroups::form(std::move(wish), std::move(done));
  }
  std::atomic<int> formed{0};
};

/// Replicas of one process whose coordinator is a test.
struct ReplicaBench {
  static constexpr auto patience = std::chrono::seconds{60};
  static constexpr uint32_t count = 2;

  ReplicaBench()
    : config(Credentials{}),
      system(config),
      coordinator(system),
      data(small_data()) {
    auto options = small_job();
    options.strategy = Strategy::mirrored;
    options.devices = {"cpu:0", "cpu:1"};
    job = std::make_shared<const Job>(options, *data.train);
    groups = std::make_shared<CountedGroups>(job);
    for (uint32_t i = 0; i < count; ++i) {
      RoleContext context;
      context.job = job;
      context.data = data;
      context.job_id = fence.job;
      context.role = {RoleKind::worker, i};
      context.incarnation = 1;
      context.coordinator =
        caf::actor_cast<coordinator_actor>(coordinator.ptr());
      context.metrics = std::make_shared<MetricRegistry>();
      context.groups = groups;
      replicas.push_back(spawn_replica(system, context));
    }
  }

  ~ReplicaBench() {
    for (auto& replica : replicas)
      caf::anon_send_exit(replica, caf::exit_reason::user_shutdown);
  }

  /// Returns when all have sealed.
  void propose() {
    for (auto& replica : replicas)
      coordinator->send(replica, Propose{fence});
    for (uint32_t sealed = 0; sealed < count;)
      receive([&](const Sealed&) { ++sealed; });
  }

  /// Each gets it so many times.
  void activate(int times) {
    Activate activation;
    activation.fence = fence;
    for (uint32_t i = 0; i < count; ++i) {
      const RoleId role{RoleKind::worker, i};
      activation.members.push_back({role, {}, {}});
      activation.ranks.push_back(
        {role, ranks_of_worker(i, count, job->options.virtual_ranks), {}});
    }
    for (auto& replica : replicas)
      for (int i = 0; i < times; ++i)
        coordinator->send(replica, activation);
  }

  /// The next message that is a `Handle`'s; no trouble may come before it.
  template <class Handle>
  void receive(Handle handle) {
    bool late = false;
    std::string trouble;
    coordinator->receive(
      handle, [&](const Trouble& x) { trouble = x.line; },
      [&](const LinkLost& x) { trouble = x.reason; },
      caf::after(patience) >> [&] { late = true; });
    BOOST_REQUIRE(trouble == "");
    BOOST_REQUIRE(!late);
  }

  ActorConfig config;
  caf::actor_system system;
  caf::scoped_actor coordinator;
  JobData data;
  std::shared_ptr<const Job> job;
  std::shared_ptr<CountedGroups> groups;
  std::vector<replica_actor> replicas;
  Fence fence{9, 1, 1};
};

} // namespace

// docs/reliability.md, 142930 and 160846: the copy formed a second group, which
// took the place of the first one while others were in a step of it. Copies lie
// in the mailbox before the first one's group is there.
BOOST_AUTO_TEST_CASE(copies_of_an_activation_form_no_group) {
  ReplicaBench bench;
  bench.propose();
  bench.activate(3);
  std::vector<uint64_t> versions(ReplicaBench::count);
  while (*std::ranges::min_element(versions) < bench.job->total_steps)
    bench.receive(
      [&](const Applied& x) { versions.at(x.owner.index) = x.version; });
  BOOST_TEST(bench.groups->formed == 2);
}

BOOST_AUTO_TEST_SUITE_END()
