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

  explicit ReplicaBench(const std::string& model = small_job().model,
                        uint32_t epochs = small_job().epochs)
    : config(Credentials{}),
      system(config),
      coordinator(system),
      data(small_data()) {
    auto options = small_job();
    options.model = model;
    options.epochs = epochs;
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

  /// Returns when all have sealed: how, by role.
  std::vector<Sealed> propose() {
    for (auto& replica : replicas)
      coordinator->send(replica, Propose{fence});
    std::vector<Sealed> seals(count);
    for (uint32_t sealed = 0; sealed < count; ++sealed)
      receive([&](const Sealed& seal) { seals.at(seal.role.index) = seal; });
    return seals;
  }

  /// Each gets it so many times. All go on from the newest version.
  void activate(int times, const std::vector<Sealed>& seals) {
    Activate activation;
    activation.fence = fence;
    const auto newest = std::ranges::max_element(seals, {}, &Sealed::version);
    activation.version = newest->version;
    activation.source = newest->role.index;
    activation.synchronise = std::ranges::any_of(seals, [&](const auto& x) {
      return x.version < newest->version;
    });
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
    bool again = false;
    std::string trouble;
    do {
      again = false;
      coordinator->receive(
        handle, [&](const Trouble& x) { trouble = x.line; },
        [&](const LinkLost& x) {
          again = leaves_early;
          trouble = leaves_early ? "" : x.reason;
        },
        caf::after(patience) >> [&] { late = true; });
    } while (again);
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
  bool leaves_early = false; ///< one may, in a step of another
};

} // namespace

// docs/reliability.md, 142930 and 160846: the copy formed a second group, which
// took the place of the first one while others were in a step of it. Copies lie
// in the mailbox before the first one's group is there.
BOOST_AUTO_TEST_CASE(copies_of_an_activation_form_no_group) {
  ReplicaBench bench;
  bench.activate(3, bench.propose());
  std::vector<uint64_t> versions(ReplicaBench::count);
  while (*std::ranges::min_element(versions) < bench.job->total_steps)
    bench.receive(
      [&](const Applied& x) { versions.at(x.owner.index) = x.version; });
  BOOST_TEST(bench.groups->formed == 2);
}

BOOST_AUTO_TEST_CASE(an_epoch_ends_passes_that_wait_for_those_of_others) {
  ReplicaBench bench{R"({"sample": {"features": [20], "classes": 4},
    "operators": [{"kind": "batch_norm", "cross_replica": true},
      {"kind": "dense", "units": 8},
      {"kind": "batch_norm", "cross_replica": true},
      {"kind": "dense", "units": "classes"},
      {"kind": "softmax_cross_entropy"}]})",
                     12};
  bench.leaves_early = true;
  uint64_t version = 0;
  for (uint64_t epoch = 1; version < bench.job->total_steps; ++epoch) {
    bench.fence.epoch = epoch;
    const auto seals = bench.propose();
    // Who has the rest of a step could not use them.
    for (const auto& seal : seals)
      BOOST_TEST(seal.nodes.empty());
    bench.activate(1, seals);
    const auto stop = epoch < 20 ? version + 2 : bench.job->total_steps;
    while (version < stop)
      bench.receive([&](const Applied& x) {
        if (x.fence == bench.fence)
          version = std::max(version, x.version);
      });
  }
  BOOST_TEST(bench.groups->formed >= 40);
}

BOOST_AUTO_TEST_SUITE_END()
