#include "strategies/epoch_plan.hpp"

#include <boost/test/unit_test.hpp>

#include <map>
#include <set>
#include <string>
#include <vector>

using namespace troupe;

BOOST_TEST_DONT_PRINT_LOG_VALUE(ResumeMode)

BOOST_AUTO_TEST_SUITE(epoch_plan)

namespace {

using Known = EpochPlan::Known;
using Members = std::map<RoleId, uint64_t>; // by incarnation
using Ranges = std::vector<RankRange>;
using Roles = std::set<RoleId>;
using Versions = std::map<uint32_t, uint64_t>; // by owner_key()

constexpr RoleId worker0{RoleKind::worker, 0};
constexpr RoleId worker1{RoleKind::worker, 1};
constexpr RoleId head{RoleKind::shard, 0};
constexpr RoleId tail{RoleKind::shard, 1};

/// A slice each; 4 virtual ranks.
const std::vector<Variable> two_variables{{"weight", {20, 4}}, {"bias", {4}}};

Plan planned(PlanOptions options,
             const std::vector<Variable>& variables = two_variables) {
  if (options.devices.empty())
    options.devices = {"cpu:0"};
  Plan plan;
  PlanError error;
  BOOST_REQUIRE_MESSAGE(make_plan(options, variables, plan, error),
                        error.message);
  return plan;
}

PlanOptions served(uint32_t workers, uint32_t shards, uint32_t chain = 1) {
  PlanOptions options;
  options.strategy = Strategy::parameter_server;
  options.workers = workers;
  options.shards = shards;
  options.chain = chain;
  return options;
}

Plan two_replicas() {
  PlanOptions options;
  options.devices = {"cpu:0", "cpu:1"};
  return planned(options);
}

/// A table on one shard, a dense variable with both workers.
Plan table_and_layer() {
  auto options = served(2, 1);
  options.dense_reduced = true;
  return planned(options, {{"table", {3000, 4}, 1}, {"weight", {20, 4}}});
}

/// The job goes by steps, and so many are committed.
Known steps(uint64_t committed) {
  Known known;
  known.committed = committed;
  return known;
}

/// It goes by leases since each slice had so many updates.
Known leases(LeaseSet acknowledged, uint64_t updates = 0) {
  Known known;
  known.period.async = true;
  known.period.updates = updates;
  known.leases.acknowledged = std::move(acknowledged);
  return known;
}

/// Says that these versions of a slice are held, and leases below the newest.
SliceState held(uint32_t slice, uint64_t oldest, uint64_t newest,
                uint64_t epoch = 1) {
  return {slice, oldest, newest, {}, newest, {}, epoch};
}

/// One worker, and one chain of two for every slice.
struct Chains {
  explicit Chains(EpochPlan::Options options = {}) : plan(job, options) {
    plan.decide(seals({head, tail}, 0), {}, 1);
  }

  /// What is said when `shards` hold these versions, and leases below that.
  Seals seals(const std::vector<RoleId>& shards, uint64_t newest,
              uint64_t epoch = 1) const {
    Seals out;
    out[worker0] = {};
    for (auto shard : shards)
      for (const auto& slice : job.slices)
        out[shard].slices.push_back(held(slice.id, newest > 0 ? newest - 1 : 0,
                                         newest, newest > 0 ? epoch : 0));
    return out;
  }

  Plan job = planned(served(1, 1, 2));
  EpochPlan plan;
};

} // namespace

// --- who is enough -----------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_worker_and_one_of_each_chain_can_go_on) {
  const auto job = planned(served(2, 2, 2)); // chains 0, 2 and 1, 3
  const EpochPlan plan{job};
  const auto shard = [](uint32_t index) {
    return RoleId{RoleKind::shard, index};
  };
  BOOST_TEST(plan.viable({worker1, shard(0), shard(3)}));
  BOOST_TEST(plan.viable({worker0, shard(2), shard(1)}));
  BOOST_TEST(!plan.viable({worker0, shard(0), shard(2)}));
  BOOST_TEST(!plan.viable({shard(0), shard(1)}));
  const EpochPlan both{job, {.min_workers = 2}};
  BOOST_TEST(!both.viable({worker1, shard(0), shard(3)}));
}

BOOST_AUTO_TEST_CASE(one_of_several_replicas_can_go_on) {
  const auto job = two_replicas();
  BOOST_TEST(EpochPlan{job}.viable({worker1}));
  BOOST_TEST(!EpochPlan{job}.viable({}));
  PlanOptions one_device;
  one_device.strategy = Strategy::one_device;
  const auto alone = planned(one_device);
  BOOST_TEST(!EpochPlan{alone}.viable({worker0})); // it is waited for
}

BOOST_AUTO_TEST_CASE(a_job_of_min_workers_begins_with_all_shards) {
  const auto job = planned(served(2, 2));
  const EpochPlan plan{job, {.min_workers = 1}};
  BOOST_TEST(plan.begins({worker1, head, tail}));
  BOOST_TEST(!plan.begins({worker1, head}));
  BOOST_TEST(!plan.begins({head, tail}));
  BOOST_TEST(!EpochPlan{job}.begins({worker0, worker1, head, tail}));
}

// --- whom an epoch waits for -------------------------------------------------

// docs/reliability.md, 19654: a head forwards an update before it applies it,
// so its memory may lack what its tail has acknowledged.
BOOST_AUTO_TEST_CASE(who_may_have_what_was_committed_is_awaited) {
  const Chains it;
  BOOST_TEST((it.plan.awaited(it.seals({head}, 6), steps(7)) == Roles{tail}));
  BOOST_TEST((it.plan.awaited(it.seals({tail}, 7), steps(7)) == Roles{}));
  BOOST_TEST((it.plan.awaited(it.seals({head, tail}, 6), steps(7)) == Roles{}));
}

BOOST_AUTO_TEST_CASE(a_slice_that_others_are_past_needs_who_is_absent) {
  const Chains it;
  auto seals = it.seals({head}, 6);
  seals[head].slices.back().oldest = seals[head].slices.back().newest = 7;
  BOOST_TEST((it.plan.awaited(seals, steps(6)) == Roles{tail}));
}

// docs/reliability.md, 5518
BOOST_AUTO_TEST_CASE(who_may_have_consumed_leases_is_awaited) {
  const Chains it;
  const auto seals = it.seals({head}, 6);
  BOOST_TEST((it.plan.awaited(seals, leases({6, {}})) == Roles{}));
  BOOST_TEST((it.plan.awaited(seals, leases({6, {8}})) == Roles{tail}));
  BOOST_TEST((it.plan.awaited(seals, leases({}, 7)) == Roles{tail}));
}

// docs/reliability.md, 109320: the same, where only the coordinator before had
// heard of that.
BOOST_AUTO_TEST_CASE(what_another_coordinator_was_told_of_is_awaited) {
  const Chains it;
  auto known = leases({6, {}});
  known.told_another = Members{{head, 3}, {tail, 4}};
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
  const auto job = two_replicas();
  const EpochPlan plan{job};
  auto known = steps(6);
  known.told_another = Members{{worker0, 3}, {worker1, 4}};
  Seals seals;
  seals[worker0].incarnation = 9;
  BOOST_TEST((plan.awaited(seals, known) == Roles{worker1}));
  BOOST_TEST((plan.awaited(seals, steps(6)) == Roles{})); // known to be lost
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
  it.plan.decide(it.seals({tail}, 5), {}, 2);
  BOOST_TEST((it.plan.awaited(it.seals({tail}, 0), steps(5)) == Roles{}));
}

// docs/reliability.md, 13793: a learner became a replica without a decision
// that its chain had told others, and was then alone.
BOOST_AUTO_TEST_CASE(a_decision_that_only_the_absent_know_is_awaited) {
  Chains it{EpochPlan::Options{.decides = true}};
  it.plan.decide(it.seals({tail}, 5, 1), {}, 2);       // the head has died,
  it.plan.decide(it.seals({tail}, 6, 2), {}, 3);       // learns
  it.plan.decide(it.seals({head, tail}, 6, 3), {}, 4); // and is a replica,
  auto seals = it.seals({head}, 6, 3);                 // not current in 4 yet
  BOOST_TEST((it.plan.awaited(seals, steps(6)) == Roles{}));
  seals[head].slices.back().newest = 7;
  BOOST_TEST((it.plan.awaited(seals, steps(6)) == Roles{tail}));
  for (auto& slice : seals[head].slices)
    slice.epoch = 4;
  BOOST_TEST((it.plan.awaited(seals, steps(6)) == Roles{}));
  for (auto& slice : seals[head].slices)
    slice.epoch = 3;
  const auto decided = it.plan.decide(seals, steps(6), 5);
  BOOST_TEST(decided.sealed.undecided);
  BOOST_TEST(decided.resume.rolls_back());
}

// --- steps with shards -------------------------------------------------------

// Who goes next takes over what nobody has; slices go on at the same version.
BOOST_AUTO_TEST_CASE(ranks_that_nobody_has_are_computed_again) {
  const auto job = planned(served(2, 1));
  EpochPlan plan{job};
  Seals seals;
  seals[worker0] = {3, {}, 7, {{0, 1}}};
  seals[worker1] = {4, {}, 6, {{2, 4}}}; // of the step before
  seals[head].slices = {held(0, 6, 7), held(1, 7, 8)};
  seals[head].slices[0].held = {{2, 3}};
  const auto epoch = plan.decide(seals, steps(7), 2);
  BOOST_TEST(epoch.mode == ResumeMode::slices);
  BOOST_TEST(epoch.resume.message.version == 7u);
  BOOST_TEST(epoch.resume.reason == "every slice has version 7");
  BOOST_TEST((epoch.missing == Ranges{{1, 2}, {3, 4}}));
  // Owners have rank 2 of a worker that is gone, which may not have told.
  BOOST_TEST((epoch.unreported == Ranges{{2, 3}}));
  BOOST_TEST((epoch.owners == Versions{{owner_key(head), 7}}));
  BOOST_REQUIRE(epoch.ranks.size() == 2u);
  BOOST_TEST((epoch.ranks[1].ranks == RankRange{2, 4}));
  BOOST_TEST(epoch.ranks[0].held.empty());
  BOOST_REQUIRE(epoch.slices.size() == 2u);
  BOOST_TEST((epoch.slices[0].held == Ranges{{2, 3}}));
  BOOST_TEST(plan.newest_sealed() == 8u);
  BOOST_TEST(plan.beginners() == 2u);
}

BOOST_AUTO_TEST_CASE(a_worker_that_is_left_alone_has_all_ranks) {
  const auto job = planned(served(2, 1));
  EpochPlan plan{job};
  Seals seals{{worker1, {}}, {head, {}}};
  const auto epoch = plan.decide(seals, {}, 3);
  BOOST_REQUIRE(epoch.ranks.size() == 1u);
  BOOST_TEST((epoch.ranks[0].worker == worker1));
  BOOST_TEST((epoch.ranks[0].ranks == RankRange{0, 4}));
  BOOST_TEST((plan.workers() == std::set<uint32_t>{1}));
}

// Symptom: after a coordinator's death the step under way was committed before
// its reports were there, now and then, and shown without its loss.
BOOST_AUTO_TEST_CASE(reports_that_are_said_again_are_awaited) {
  Chains it;
  auto known = steps(5);
  known.reports_lost = true;
  auto seals = it.seals({head, tail}, 6);
  BOOST_TEST(it.plan.decide(seals, known, 2).unreported.empty());
  for (auto& slice : seals[tail].slices)
    slice.held = {{2, 3}}; // of one that is gone
  for (auto& slice : seals[head].slices)
    slice.held = {{2, 3}};
  BOOST_TEST((it.plan.decide(seals, known, 3).unreported == Ranges{{2, 3}}));
}

BOOST_AUTO_TEST_CASE(what_is_rolled_back_is_held_by_nobody) {
  Chains it;
  auto seals = it.seals({head, tail}, 6);
  seals[worker0] = {1, {}, 6, {{0, 4}}};
  const auto epoch = it.plan.decide(seals, steps(8), 2);
  BOOST_TEST(epoch.resume.rolls_back());
  BOOST_TEST(epoch.slices.empty());
  BOOST_TEST((epoch.missing == Ranges{{0, 4}}));
  BOOST_TEST(epoch.unreported.empty());
  BOOST_TEST(it.plan.newest_sealed() == 0u);
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
  const auto epoch = it.plan.decide(seals, steps(6), 2);
  for (const auto& slice : epoch.sealed.slices)
    BOOST_TEST(slice.newest == 7u);
  BOOST_TEST(epoch.sealed.everywhere == 6u);
  BOOST_TEST(epoch.resume.message.version == 7u);
  BOOST_TEST((epoch.owners == Versions{{owner_key(tail), 6}}));
}

// --- chains ------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_shard_that_comes_back_learns_what_its_chain_has) {
  Chains it;
  auto epoch = it.plan.decide(it.seals({tail}, 6), steps(6), 2);
  const auto members = [](const SliceChain& chain) {
    return std::pair{chain.replicas, chain.learners};
  };
  using Shards = std::vector<uint32_t>;
  for (const auto& chain : epoch.chains)
    BOOST_TEST((members(chain) == std::pair{Shards{1}, Shards{}}));
  auto seals = it.seals({tail}, 7, 2);
  seals[head] = {}; // it holds nothing yet
  epoch = it.plan.decide(seals, steps(7), 3);
  for (const auto& chain : epoch.chains)
    BOOST_TEST((members(chain) == std::pair{Shards{1}, Shards{0}}));
  BOOST_TEST((it.plan.whole({worker0, head, tail}, 7) == Roles{worker0, tail}));
  BOOST_TEST((it.plan.tails() == std::set<uint32_t>{1}));
  const auto all = it.job.slices[0].bytes() + it.job.slices[1].bytes();
  BOOST_TEST(all == sizeof(float) * 84);
  BOOST_TEST((it.plan.kept_bytes() == std::map<uint32_t, uint64_t>{{1, all}}));
}

BOOST_AUTO_TEST_CASE(replicas_of_a_slice_are_spread_over_hosts) {
  const auto job = planned(served(1, 2, 2)); // chains 0, 2 and 1, 3
  EpochPlan plan{job};
  const RoleId third{RoleKind::shard, 2}, fourth{RoleKind::shard, 3};
  plan.spread({{"a", {worker0, head, tail, third, fourth}}});
  for (uint32_t slice = 0; slice < 2; ++slice)
    BOOST_TEST((plan.chains().wanted(slice) == job.replicas(slice)));
  plan.spread({{"a", {worker0, head, third}}, {"b", {tail, fourth}}});
  for (uint32_t slice = 0; slice < 2; ++slice) {
    const auto& wanted = plan.chains().wanted(slice);
    BOOST_REQUIRE(wanted.size() == 2u);
    BOOST_TEST((wanted[0] % 2 != wanted[1] % 2)); // odd ones are on host b
  }
}

BOOST_AUTO_TEST_CASE(a_fault_strikes_where_a_role_passes) {
  Chains it;
  using enum StepPhase;
  BOOST_TEST(it.plan.passes(tail, pull)); // the tail serves,
  BOOST_TEST(!it.plan.passes(head, pull));
  BOOST_TEST(it.plan.passes(head, reduce)); // the head reduces and forwards
  BOOST_TEST(it.plan.passes(head, forward));
  BOOST_TEST(!it.plan.passes(tail, forward));
  BOOST_TEST(!it.plan.passes(worker0, reduce));
  const auto replicas = two_replicas();
  BOOST_TEST(EpochPlan{replicas}.passes(worker0, reduce));
  BOOST_TEST(!EpochPlan{replicas}.passes(worker0, pull));
}

// --- leases ------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(leases_are_counted_by_their_account) {
  Chains it;
  auto seals = it.seals({head, tail}, 9);
  for (auto& slice : seals[tail].slices)
    slice.lease_floor = 8; // it has yet to get the last one
  const auto epoch = it.plan.decide(seals, leases({8, {}}), 2);
  BOOST_TEST(epoch.mode == ResumeMode::leases);
  BOOST_TEST((epoch.resume.verdict == ResumeVerdict::go_on));
  BOOST_TEST(epoch.sealed.applied.at(1).floor() == 8u);
  BOOST_TEST(epoch.sealed.promised.at(1).floor() == 9u);
  BOOST_TEST(epoch.owners.empty());
  BOOST_TEST(epoch.missing.empty());
  BOOST_TEST(epoch.slices.size() == 2u);
}

BOOST_AUTO_TEST_CASE(leases_that_a_chain_has_lost_are_computed_again) {
  Chains it;
  const auto epoch = it.plan.decide(it.seals({head}, 6), leases({8, {}}), 2);
  BOOST_TEST((epoch.resume.verdict == ResumeVerdict::compute_again));
  BOOST_TEST(epoch.resume.lost_leases == 2u);
}

// --- replicas ----------------------------------------------------------------

// A replica that came back takes its state only when the epoch has begun.
BOOST_AUTO_TEST_CASE(a_replica_is_whole_once_it_has_the_version) {
  const auto job = two_replicas();
  EpochPlan plan{job};
  Seals seals{{worker0, {}}, {worker1, {}}};
  seals[worker0].version = 7;
  plan.decide(seals, {}, 2);
  BOOST_TEST((plan.whole({worker0, worker1}, 7) == Roles{worker0}));
  BOOST_TEST((plan.whole({worker0, worker1}, 0) == Roles{worker0, worker1}));
}

BOOST_AUTO_TEST_CASE(a_replica_keeps_its_sums_of_the_step_that_goes_on) {
  const auto job = two_replicas();
  EpochPlan plan{job};
  Seals seals;
  seals[worker0] = {3, {}, 7, {{0, 2}}};
  seals[worker1] = {4, {}, 6, {{2, 4}}};
  const auto epoch = plan.decide(seals, steps(6), 2);
  BOOST_TEST(epoch.mode == ResumeMode::replicas);
  BOOST_TEST(epoch.resume.message.version == 7u);
  BOOST_TEST(epoch.resume.message.synchronise);
  BOOST_TEST(epoch.resume.message.source == 0u);
  BOOST_TEST((epoch.ranks.at(0).held == Ranges{{0, 2}}));
  BOOST_TEST(epoch.ranks.at(1).held.empty()); // they are of another step
  BOOST_TEST(epoch.chains.empty());
  BOOST_TEST(epoch.missing.empty());
  const Versions versions{{owner_key(worker0), 7}, {owner_key(worker1), 6}};
  BOOST_TEST((epoch.owners == versions));
  const auto back = plan.decide(seals, steps(8), 3); // nobody has that
  BOOST_TEST(back.resume.rolls_back());
  BOOST_TEST(back.ranks.at(0).held.empty());
}

// --- tables on shards, layers with every worker ------------------------------

BOOST_AUTO_TEST_CASE(what_every_worker_keeps_needs_no_shard) {
  const auto job = table_and_layer();
  EpochPlan plan{job};
  BOOST_TEST(plan.viable({worker0, head}));
  BOOST_TEST(!plan.viable({worker0}));
  Seals seals;
  seals[head].slices = {held(0, 6, 7)};
  seals[worker0] = {0, {held(1, 6, 7)}, 7, {{0, 2}}};
  const auto epoch = plan.decide(seals, steps(7), 2);
  BOOST_TEST(epoch.mode == ResumeMode::both);
  BOOST_TEST(epoch.sealed.slices.size() == 1u);
  BOOST_TEST(epoch.sealed.everywhere == 7u);
  BOOST_REQUIRE(epoch.sealed.replicas.size() == 1u);
  BOOST_TEST(epoch.sealed.replicas[0].oldest == 6u);
  const Versions holders{{owner_key(head), 7}, {owner_key(worker0), 7}};
  BOOST_TEST((epoch.owners == holders));
  BOOST_TEST((epoch.ranks.at(0).held == Ranges{{0, 2}}));
  BOOST_TEST(epoch.missing.empty());
  auto known = steps(5);
  known.told_another = Members{{worker0, 3}, {worker1, 4}};
  BOOST_TEST((plan.awaited(seals, known) == Roles{worker1}));
  seals[worker0].incarnation = 3;
  BOOST_TEST((plan.awaited(seals, known) == Roles{}));
  seals[worker0].slices[0].newest = 5; // rows are past that
  BOOST_TEST((plan.awaited(seals, known) == Roles{worker1}));
  BOOST_TEST((plan.whole({worker0, head}, 7) == Roles{worker0, head}));
  BOOST_TEST((plan.whole({worker0, head}, 8) == Roles{head}));
  BOOST_TEST(!epoch.chains.at(0).replicas.empty());
  BOOST_TEST(epoch.chains.at(1).replicas.empty());
}

// They are behind the layers, and what they owe of steps is not committed.
BOOST_AUTO_TEST_CASE(rows_that_run_free_commit_whole_steps) {
  const auto job = table_and_layer();
  EpochPlan plan{job};
  Seals seals;
  seals[head].slices = {held(0, 0, 22)}; // five steps of four, and two leases
  seals[worker0] = {0, {held(1, 6, 7)}, 7, {}};
  auto known = steps(5);
  known.period.async = true;
  const auto epoch = plan.decide(seals, known, 2);
  BOOST_TEST(epoch.mode == ResumeMode::free_rows);
  BOOST_TEST(epoch.sealed.leases.acknowledged.floor() == 20u);
  BOOST_TEST(epoch.resume.message.version == 7u);
  const Versions versions{{owner_key(head), 5}, {owner_key(worker0), 7}};
  BOOST_TEST((epoch.owners == versions));
  known.committed = 6;
  BOOST_TEST(plan.decide(seals, known, 3).resume.rolls_back());
}

// --- stages ------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(nobody_else_has_the_layers_of_a_stage) {
  PlanOptions options;
  options.strategy = Strategy::pipeline;
  for (uint32_t stage = 0; stage < 2; ++stage) {
    StageLayers layers;
    layers.begin = stage;
    layers.end = stage + 1;
    layers.variables = {stage};
    options.stages.push_back(layers);
  }
  const auto job = planned(options);
  EpochPlan plan{job};
  constexpr RoleId first{RoleKind::stage, 0};
  constexpr RoleId last{RoleKind::stage, 1};
  BOOST_TEST(plan.viable({first, last}));
  BOOST_TEST(!plan.viable({last}));
  Seals seals;
  seals[first].slices = {held(0, 6, 7)};
  seals[last].slices = {held(1, 6, 6)};
  const auto epoch = plan.decide(seals, steps(6), 2);
  BOOST_TEST(epoch.mode == ResumeMode::slices);
  BOOST_TEST(epoch.resume.message.version == 6u);
  BOOST_TEST((epoch.missing == Ranges{{0, 4}}));
  BOOST_TEST(epoch.unreported.empty()); // they take the step anew
  BOOST_TEST(plan.beginners() == 2u);
  BOOST_TEST(!plan.passes(first, StepPhase::pull));
}

namespace {

/// Two pipelines of two stages, of a variable each.
struct Pipelines {
  /// What is said by stages that have these newest versions.
  Seals seals(const std::vector<uint64_t>& newest) const {
    Seals out;
    for (uint32_t i = 0; i < newest.size(); ++i)
      for (auto slice : job.role({RoleKind::stage, i}).slices)
        out[{RoleKind::stage, i}].slices.push_back(
          {slice, newest[i] - 1, newest[i], {}, 0, {}, 1 + i % 2});
    return out;
  }

  static PlanOptions options() {
    PlanOptions options;
    options.strategy = Strategy::hybrid;
    options.data = 2;
    for (uint32_t stage = 0; stage < 2; ++stage) {
      StageLayers layers;
      layers.begin = stage;
      layers.end = stage + 1;
      layers.variables = {stage};
      options.stages.push_back(layers);
    }
    return options;
  }

  Plan job = planned(options());
  EpochPlan plan{job};
};

using Committers = std::map<uint32_t, uint64_t>;

} // namespace

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
    auto known = steps(7);
    known.reports_lost = true;
    const auto epoch = mesh.plan.decide(mesh.seals(newest), known, 3);
    BOOST_TEST(!epoch.resume.rolls_back());
    BOOST_TEST(epoch.resume.message.version == 7u);
    BOOST_TEST((epoch.owners == Committers{{0, 7}, {1, 7}, {2, 7}, {3, 7}}));
    BOOST_TEST(mesh.plan.beginners() == 4u);
    BOOST_TEST(epoch.unreported.empty());
  }
  const auto epoch = mesh.plan.decide(mesh.seals({8, 8, 8, 8}), steps(7), 4);
  BOOST_TEST(epoch.resume.message.version == 8u);
}

// Its process is gone, and the memory that was to outlive it.
BOOST_AUTO_TEST_CASE(a_stage_that_lost_what_it_kept_gets_a_copy) {
  Pipelines mesh;
  auto seals = mesh.seals({9, 8, 9, 8});
  for (auto& slice : seals[{RoleKind::stage, 0}].slices)
    slice.oldest = slice.newest = 0; // as the job begins
  const auto epoch = mesh.plan.decide(seals, steps(8), 3);
  BOOST_TEST(!epoch.resume.rolls_back());
  BOOST_TEST(epoch.resume.message.version == 8u);
  for (const auto& chain : epoch.chains) {
    const bool first = mesh.job.owner[chain.slice] == 0;
    BOOST_TEST(
      (chain.learners
       == (first ? std::vector<uint32_t>{0} : std::vector<uint32_t>{})));
    BOOST_TEST(chain.replicas.size() == (first ? 1u : 2u));
  }
  // A step is committed once the learner has it, too.
  BOOST_TEST((epoch.owners == Committers{{0, 8}, {1, 8}, {2, 8}, {3, 8}}));
  // If all who had the layers have lost them, nobody can give a copy.
  for (auto& slice : seals[{RoleKind::stage, 2}].slices)
    slice.oldest = slice.newest = 0;
  BOOST_TEST(mesh.plan.decide(seals, steps(8), 4).resume.rolls_back());
}

// --- stages whose parameters are on shards -----------------------------------

namespace {

/// Two pipelines of two stages beside two chains of two shards, a slice each.
struct ServedPipelines {
  ServedPipelines() { plan.decide(seals(0, 0), {}, 1); }

  /// What is said by all, where these shards' slices have these versions.
  Seals seals(uint64_t first, uint64_t second) const {
    Seals out;
    for (uint32_t i = 0; i < 4; ++i) {
      out[{RoleKind::stage, i}].version = 99; // it keeps nothing
      const auto newest = i % 2 == 0 ? first : second;
      for (auto slice : job.role({RoleKind::shard, i}).slices)
        out[{RoleKind::shard, i}].slices.push_back(
          held(slice, newest > 0 ? newest - 1 : 0, newest, newest > 0));
    }
    return out;
  }

  static PlanOptions options() {
    auto options = Pipelines::options();
    options.serves_stages = true;
    options.shards = 2;
    options.chain = 2;
    return options;
  }

  Plan job = planned(options());
  EpochPlan plan{job};
};

} // namespace

BOOST_AUTO_TEST_CASE(all_stages_and_one_of_each_chain_can_go_on) {
  ServedPipelines mesh;
  Roles all;
  for (uint32_t i = 0; i < 4; ++i) {
    all.insert({RoleKind::stage, i});
    all.insert({RoleKind::shard, i});
  }
  BOOST_TEST(mesh.plan.viable(all));
  for (uint32_t i = 0; i < 4; ++i) {
    auto some = all;
    some.erase({RoleKind::shard, i});
    BOOST_TEST(mesh.plan.viable(some));
    some.erase({RoleKind::shard, (i + 2) % 4}); // the other of its chain
    BOOST_TEST(!mesh.plan.viable(some));
    some = all;
    some.erase({RoleKind::stage, i}); // whose layers nobody else computes
    BOOST_TEST(!mesh.plan.viable(some));
  }
  BOOST_TEST(mesh.plan.beginners() == 4u);
}

BOOST_AUTO_TEST_CASE(stages_take_a_step_anew_and_shards_keep_what_they_have) {
  ServedPipelines mesh;
  auto seals = mesh.seals(8, 7); // one slice is past the step
  for (auto& state : seals[{RoleKind::shard, 1}].slices)
    state.held = {{0, 2}}; // of the other one pipeline's node has come
  auto known = steps(7);
  known.reports_lost = true;
  const auto epoch = mesh.plan.decide(seals, known, 2);
  BOOST_TEST(epoch.mode == ResumeMode::slices);
  BOOST_TEST(!epoch.resume.rolls_back());
  BOOST_TEST(epoch.resume.message.version == 7u);
  BOOST_TEST(epoch.ranks.empty()); // those of the plan are the stages' for good
  BOOST_TEST(epoch.missing.empty());
  BOOST_TEST(epoch.unreported.empty()); // they tell of all of it again
  for (const auto& head : epoch.slices) {
    const bool first = mesh.job.owner[head.slice] == 0;
    BOOST_TEST(head.newest == (first ? 8u : 7u));
    BOOST_TEST((head.held == (first ? Ranges{} : Ranges{{0, 2}})));
  }
  // Tails commit, and no stage does.
  BOOST_TEST((epoch.owners == Versions{{2, 7}, {3, 7}}));
}

BOOST_AUTO_TEST_CASE(a_stage_beside_shards_pulls_and_reduces_nothing) {
  ServedPipelines mesh;
  constexpr RoleId stage{RoleKind::stage, 1};
  for (auto phase : {StepPhase::at_once, StepPhase::pull, StepPhase::compute,
                     StepPhase::push, StepPhase::seal})
    BOOST_TEST(mesh.plan.passes(stage, phase));
  BOOST_TEST(!mesh.plan.passes(stage, StepPhase::reduce));
  BOOST_TEST(mesh.plan.passes({RoleKind::shard, 0}, StepPhase::reduce));
  BOOST_TEST(mesh.plan.passes({RoleKind::shard, 2}, StepPhase::pull));
  for (auto& role : mesh.job.roles)
    if (role.role == stage)
      role.slices.clear(); // its layers have no parameters
  for (auto phase : {StepPhase::pull, StepPhase::push})
    BOOST_TEST(!mesh.plan.passes(stage, phase));
  BOOST_TEST(mesh.plan.passes(stage, StepPhase::compute));
}

BOOST_AUTO_TEST_CASE(tensor_members_beside_shards_are_all_needed) {
  PlanOptions options;
  options.strategy = Strategy::hybrid;
  options.serves_stages = true;
  options.shards = 2;
  options.data = 2;
  options.tensor = {{{0, 1}, {0}, {0}}, {{1, 2}, {1}, {1}}};
  const auto job = planned(options);
  EpochPlan plan{job};
  Seals seals;
  Roles all{{RoleKind::shard, 0}, {RoleKind::shard, 1}};
  for (uint32_t i = 0; i < 2; ++i)
    for (auto slice : job.role({RoleKind::shard, i}).slices)
      seals[{RoleKind::shard, i}].slices.push_back(held(slice, 6, 7));
  for (uint32_t i = 0; i < 4; ++i) {
    all.insert({RoleKind::tensor, i});
    seals[{RoleKind::tensor, i}];
  }
  BOOST_TEST(plan.viable(all));
  auto some = all;
  some.erase({RoleKind::tensor, 2});
  BOOST_TEST(!plan.viable(some));
  const auto epoch = plan.decide(seals, steps(7), 2);
  BOOST_TEST(!epoch.resume.rolls_back());
  BOOST_TEST(epoch.resume.message.version == 7u);
  BOOST_TEST(epoch.ranks.empty());
  BOOST_TEST(epoch.missing.empty());
  BOOST_TEST((epoch.owners == Versions{{0, 7}, {1, 7}})); // the shards
  BOOST_TEST(plan.beginners() == 4u);
  BOOST_TEST(plan.passes({RoleKind::tensor, 3}, StepPhase::pull));
  BOOST_TEST(!plan.passes({RoleKind::tensor, 3}, StepPhase::reduce));
}

BOOST_AUTO_TEST_SUITE_END()
