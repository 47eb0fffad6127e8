#include "actors/coordinator/epoch_plan.hpp"
#include "tests/unit/actors/small_job.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(epoch_plan)

namespace {

using Roles = std::set<RoleId>;

constexpr RoleId worker0{RoleKind::worker, 0};
constexpr RoleId head{RoleKind::shard, 0};
constexpr RoleId tail{RoleKind::shard, 1};

JobOptions job_of(Strategy strategy) {
  auto job = small_job();
  job.strategy = strategy;
  job.samples = 500;
  job.sample.features = {20};
  job.sample.classes = 4;
  return job;
}

/// One worker, and one chain of two for every slice.
JobOptions chain_of_two() {
  auto job = job_of(Strategy::parameter_server);
  job.chain = 2;
  return job;
}

struct Chains {
  explicit Chains(const JobOptions& options = chain_of_two()) : job(options) {
    plan.begin(seals({head, tail}, 0), 1);
  }

  /// What is said when `shards` hold these versions, and leases below that.
  std::map<RoleId, Sealed> seals(const std::vector<RoleId>& shards,
                                 uint64_t newest, uint64_t epoch = 1) const {
    std::map<RoleId, Sealed> out;
    out[worker0] = {};
    for (auto shard : shards)
      for (const auto& slice : job.plan.slices)
        out[shard].slices.push_back({slice.id,
                                     newest > 0 ? newest - 1 : 0,
                                     newest,
                                     {},
                                     newest,
                                     {},
                                     newest > 0 ? epoch : 0});
    return out;
  }

  Job job;
  EpochPlan plan{job};
};

} // namespace

// docs/reliability.md, 19654: a head forwards an update before it applies it,
// so its memory may lack what its tail has acknowledged.
BOOST_AUTO_TEST_CASE(who_may_have_what_was_committed_is_awaited) {
  Chains it;
  BOOST_TEST((it.plan.awaited(it.seals({head}, 6), {7}) == Roles{tail}));
  BOOST_TEST((it.plan.awaited(it.seals({tail}, 7), {7}) == Roles{}));
  BOOST_TEST((it.plan.awaited(it.seals({head, tail}, 6), {7}) == Roles{}));
}

BOOST_AUTO_TEST_CASE(a_slice_that_others_are_past_needs_who_is_absent) {
  Chains it;
  auto seals = it.seals({head}, 6);
  seals[head].slices.back().oldest = seals[head].slices.back().newest = 7;
  BOOST_TEST((it.plan.awaited(seals, {6}) == Roles{tail}));
}

// docs/reliability.md, 5518
BOOST_AUTO_TEST_CASE(who_may_have_consumed_leases_is_awaited) {
  Chains it;
  const auto seals = it.seals({head}, 6);
  BOOST_TEST((it.plan.awaited(seals, {0, LeaseSet{6, {}}}) == Roles{}));
  BOOST_TEST((it.plan.awaited(seals, {0, LeaseSet{6, {8}}}) == Roles{tail}));
  BOOST_TEST((it.plan.awaited(seals, {7, LeaseSet{}}) == Roles{tail}));
}

// docs/reliability.md, 109320: the same, where only the coordinator before had
// heard of that.
BOOST_AUTO_TEST_CASE(what_another_coordinator_was_told_of_is_awaited) {
  Chains it;
  const std::map<RoleId, uint64_t> members{{head, 3}, {tail, 4}};
  const EpochPlan::Acknowledged known{0, LeaseSet{6, {}}, &members};
  auto seals = it.seals({head}, 6);
  seals[head].incarnation = 3;
  BOOST_TEST((it.plan.awaited(seals, known) == Roles{}));
  seals[head].incarnation = 5;
  BOOST_TEST((it.plan.awaited(seals, known) == Roles{tail}));
  seals = it.seals({head, tail}, 6);
  BOOST_TEST((it.plan.awaited(seals, known) == Roles{}));
}

// docs/reliability.md, 113853: one was new, the other found the next
// coordinator late, and the layers seemed lost.
BOOST_AUTO_TEST_CASE(who_may_have_what_workers_all_reduce_is_awaited) {
  constexpr RoleId worker1{RoleKind::worker, 1};
  const Job job{job_of(Strategy::mirrored)};
  const EpochPlan plan{job};
  const std::map<RoleId, uint64_t> members{{worker0, 3}, {worker1, 4}};
  const EpochPlan::Acknowledged known{6, std::nullopt, &members};
  std::map<RoleId, Sealed> seals;
  seals[worker0].incarnation = 9;
  BOOST_TEST((plan.awaited(seals, known) == Roles{worker1}));
  BOOST_TEST((plan.awaited(seals, {6}) == Roles{})); // it is known to be lost
  seals[worker0].incarnation = 3;
  seals[worker0].version = 6;
  BOOST_TEST((plan.awaited(seals, known) == Roles{}));
  seals[worker0].version = 0; // it has not taken it yet
  BOOST_TEST((plan.awaited(seals, known) == Roles{worker1}));
  seals[worker1] = {};
  BOOST_TEST((plan.awaited(seals, known) == Roles{}));
}

// A shard that came back without its memory holds version 0.
BOOST_AUTO_TEST_CASE(who_was_no_replica_is_not_awaited) {
  Chains it;
  it.plan.begin(it.seals({tail}, 5), 2);
  BOOST_TEST((it.plan.awaited(it.seals({tail}, 0), {5}) == Roles{}));
}

// docs/reliability.md, 13793: a learner became a replica without a decision
// that its chain had told others, and was then alone.
BOOST_AUTO_TEST_CASE(a_decision_that_only_the_absent_know_is_awaited) {
  auto options = chain_of_two();
  options.clip_norm = 1;
  Chains it{options};
  it.plan.begin(it.seals({tail}, 5, 1), 2);       // the head has died,
  it.plan.begin(it.seals({tail}, 6, 2), 3);       // learns
  it.plan.begin(it.seals({head, tail}, 6, 3), 4); // and is a replica,
  auto seals = it.seals({head}, 6, 3);            // not current in 4 yet
  BOOST_TEST((it.plan.awaited(seals, {6}) == Roles{}));
  seals[head].slices.back().newest = 7;
  BOOST_TEST((it.plan.awaited(seals, {6}) == Roles{tail}));
  for (auto& slice : seals[head].slices)
    slice.epoch = 4;
  BOOST_TEST((it.plan.awaited(seals, {6}) == Roles{}));
  for (auto& slice : seals[head].slices)
    slice.epoch = 3;
  it.plan.begin(seals, 5);
  BOOST_TEST(it.plan.undecided());
}

// A replica that came back takes its state only when the epoch has begun.
BOOST_AUTO_TEST_CASE(a_replica_is_whole_once_it_has_the_version) {
  const Job job{job_of(Strategy::mirrored)};
  EpochPlan plan{job};
  constexpr RoleId worker1{RoleKind::worker, 1};
  std::map<RoleId, Sealed> seals{{worker0, {}}, {worker1, {}}};
  seals[worker0].version = 7;
  plan.begin(seals, 2);
  BOOST_TEST((plan.whole({worker0, worker1}, 7) == Roles{worker0}));
  BOOST_TEST((plan.whole({worker0, worker1}, 0) == Roles{worker0, worker1}));
}

// docs/reliability.md, 105418: the head may die before its tail has that, and
// workers keep no older layers than those that an epoch begins with.
BOOST_AUTO_TEST_CASE(what_a_head_alone_has_is_not_in_the_whole_chain) {
  Chains it;
  auto seals = it.seals({head, tail}, 7);
  for (auto& slice : seals[tail].slices) {
    --slice.oldest;
    --slice.newest;
  }
  it.plan.begin(seals, 2);
  for (const auto& slice : it.plan.restorable())
    BOOST_TEST(slice.newest == 7u);
  BOOST_TEST(it.plan.sealed(6).everywhere == 6u);
}

// Beside tables on shards, workers commit steps too: with the version they
// hold.
/// Two pipelines of two stages, which seal with these newest versions.
struct Pipelines {
  Pipelines() : job(options()) {}

  static JobOptions options() {
    auto options = job_of(Strategy::hybrid);
    options.model = "mlp:20-8-4";
    options.cut.mesh = {2, 2};
    options.clip_norm = 1;
    return options;
  }
  std::map<RoleId, Sealed> seals(const std::vector<uint64_t>& newest,
                                 uint64_t epoch = 1) const {
    std::map<RoleId, Sealed> out;
    for (uint32_t i = 0; i < newest.size(); ++i)
      for (auto slice : job.plan.role({RoleKind::stage, i}).slices)
        out[{RoleKind::stage, i}].slices.push_back(
          {slice, newest[i] - 1, newest[i], {}, 0, {}, epoch + i % 2});
    return out;
  }
  Resume resume(uint64_t committed) const {
    return decide_resume(plan.sealed(committed), plan.resume_mode(false));
  }

  Job job;
  EpochPlan plan{job};
};

BOOST_AUTO_TEST_CASE(pipelines_go_on_at_a_version_that_all_of_them_have) {
  Pipelines mesh;
  const Roles all{{RoleKind::stage, 0},
                  {RoleKind::stage, 1},
                  {RoleKind::stage, 2},
                  {RoleKind::stage, 3}};
  BOOST_TEST(mesh.plan.viable(all));
  auto three = all;
  three.erase({RoleKind::stage, 3});
  BOOST_TEST(!mesh.plan.viable(three));
  for (uint32_t behind = 0; behind < 4; ++behind) {
    std::vector<uint64_t> newest(4, 8);
    newest[behind] = 7;
    mesh.plan.begin(mesh.seals(newest), 3);
    const auto found = mesh.resume(7);
    BOOST_TEST(!found.rolls_back());
    BOOST_TEST(found.message.version == 7u);
    BOOST_TEST(
      (mesh.plan.owners(ResumeMode::slices, 7)
       == std::map<uint32_t, uint64_t>{{0, 7}, {1, 7}, {2, 7}, {3, 7}}));
    BOOST_TEST(!mesh.plan.undecided());
    BOOST_TEST(mesh.plan.beginners() == 4u);
    BOOST_TEST(mesh.plan.unreported(7, true).empty());
  }
  mesh.plan.begin(mesh.seals({8, 8, 8, 8}), 4);
  BOOST_TEST(mesh.resume(7).message.version == 8u);
  mesh.plan.begin(mesh.seals({9, 8, 7, 8}), 5); // which no step leaves
  BOOST_TEST(mesh.resume(7).rolls_back());
}

BOOST_AUTO_TEST_CASE(what_every_worker_keeps_needs_no_shard) {
  JobOptions options;
  options.model = "dlrm";
  options.data = "synthetic:clicks?samples=400&buckets=3000";
  options.strategy = Strategy::parameter_server;
  options.dense = "all_reduced";
  options.devices = {"cpu:0"};
  const Job job{options, load_dataset(parse_data_spec(options.data))};
  EpochPlan plan{job};
  BOOST_TEST(plan.viable({worker0, head}));
  BOOST_TEST(!plan.viable({worker0}));
  std::map<RoleId, Sealed> seals;
  for (const auto& slice : job.plan.slices)
    seals[slice.sparse() ? head : worker0].slices.push_back(
      {slice.id, 6, 7, {}, 0, {}, 1});
  seals[worker0].version = 7;
  seals[worker0].nodes = {{0, 2}};
  plan.begin(seals, 2);
  BOOST_TEST(plan.restorable().size() < job.plan.slices.size());
  BOOST_TEST(plan.everywhere(9) == 7u);
  const auto reduced = plan.sealed(7).replicas;
  BOOST_REQUIRE(reduced.size() == 1u);
  BOOST_TEST(reduced[0].oldest == 6u);
  const std::map<uint32_t, uint64_t> holders{{owner_key(head), 7},
                                             {owner_key(worker0), 7}};
  BOOST_TEST((plan.owners(ResumeMode::both, 7) == holders));
  constexpr RoleId worker1{RoleKind::worker, 1};
  const std::map<RoleId, uint64_t> members{{worker0, 3}, {worker1, 4}};
  const EpochPlan::Acknowledged known{5, std::nullopt, &members};
  BOOST_TEST((plan.awaited(seals, known) == Roles{worker1}));
  seals[worker0].incarnation = 3;
  BOOST_TEST((plan.awaited(seals, known) == Roles{}));
  for (auto& slice : seals[worker0].slices)
    slice.newest = 5; // rows are past that
  BOOST_TEST((plan.awaited(seals, known) == Roles{worker1}));
  BOOST_TEST((plan.whole({worker0, head}, 7) == Roles{worker0, head}));
  BOOST_TEST((plan.whole({worker0, head}, 8) == Roles{head}));
  Activate message;
  plan.tell(message);
  for (const auto& slice : job.plan.slices)
    BOOST_TEST(message.chains.at(slice.id).replicas.empty() != slice.sparse());
}

BOOST_AUTO_TEST_SUITE_END()
