#include "actors/job/job.hpp"
#include "apps/chaos/plan.hpp"
#include "kernels/base/error.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(chaos_plan)

namespace {

Plan served(uint32_t workers, uint32_t shards, uint32_t chain) {
  JobOptions options;
  options.model = "mlp:784-8-10";
  options.strategy = Strategy::parameter_server;
  options.workers = workers;
  options.shards = shards;
  options.chain = chain;
  options.processes = true;
  options.devices = {"cpu:0"};
  return Job{options, 64}.plan;
}

Plan of_parts(Strategy strategy) {
  JobOptions options;
  options.model = "mlp:784-8-8-10";
  options.strategy = strategy;
  options.stages = 3;
  options.cut.tensor = 2;
  options.cut.virtual_slices = 2;
  options.processes = true;
  options.devices = {"cpu:0"};
  return Job{options, 64}.plan;
}

} // namespace

BOOST_AUTO_TEST_CASE(stages_and_tensor_members_are_struck_in_each_phase) {
  using enum ChaosKind;
  for (const auto& [strategy, kind, count] :
       {std::tuple{Strategy::pipeline, RoleKind::stage, 3u},
        std::tuple{Strategy::tensor, RoleKind::tensor, 2u}}) {
    const auto plan = of_parts(strategy);
    ChaosPlan chaos{plan, 1, {kill, stop, slow, cut, flip}};
    std::map<ChaosKind, std::set<StepPhase>> phases;
    std::set<uint32_t> struck;
    for (int i = 0; i < 300; ++i) {
      const auto strike = chaos.next(9);
      std::set<RoleId> roles;
      for (const auto& wish : strike.wishes) {
        BOOST_TEST(roles.insert(wish.role).second);
        if (wish.role.kind == RoleKind::coordinator)
          continue;
        BOOST_TEST((wish.role.kind == kind));
        struck.insert(wish.role.index);
        phases[wish.kind].insert(wish.phases.front());
        BOOST_TEST(may_strike(wish.kind, kind, wish.phases.front()));
      }
    }
    BOOST_TEST(struck.size() == count);
    for (auto phase : phases_of(kind)) // it pulls beside shards alone
      BOOST_TEST(phases[kill].contains(phase) == (phase != StepPhase::pull),
                 to_string(phase));
    BOOST_TEST(phases[cut].size() == 4u);
    BOOST_TEST((phases[slow] == std::set{StepPhase::compute}));
    for (auto other : {nan, device, memory})
      BOOST_CHECK_THROW((ChaosPlan{plan, 1, {other}}), UsageError);
  }
}

BOOST_AUTO_TEST_CASE(parts_beside_shards_are_struck_and_so_are_these) {
  using enum StepPhase;
  JobOptions options;
  options.model = "mlp:784-8-8-10";
  options.strategy = Strategy::hybrid;
  options.cut.sync_data = "parameter_server";
  options.cut.virtual_slices = 4;
  options.shards = 2;
  options.processes = true;
  options.devices = {"cpu:0"};
  for (const auto& [mesh, kind] :
       {std::pair{Mesh{2, 2, 1}, RoleKind::stage},
        std::pair{Mesh{2, 1, 2}, RoleKind::tensor}}) {
    options.cut.mesh = mesh;
    ChaosPlan chaos{Job{options, 64}.plan, 1, {ChaosKind::kill}};
    std::map<RoleKind, std::set<StepPhase>> phases;
    for (int i = 0; i < 300; ++i)
      for (const auto& wish : chaos.next(9).wishes)
        phases[wish.role.kind].insert(wish.phases.front());
    BOOST_TEST((phases[kind] == std::set{at_once, pull, compute, push, seal}));
    for (auto phase : {pull, reduce, seal})
      BOOST_TEST(phases[RoleKind::shard].contains(phase), to_string(phase));
  }
}

BOOST_AUTO_TEST_CASE(of_pairs_no_two_of_one_chain_are_down_at_once) {
  using enum ChaosKind;
  JobOptions options;
  options.model = "mlp:784-8-8-10";
  options.strategy = Strategy::fully_sharded;
  options.virtual_ranks = 8;
  options.processes = true;
  options.devices = {"cpu:0"};
  for (const auto& [workers, chain] :
       {std::pair{2u, 1u}, std::pair{3u, 2u}, std::pair{5u, 2u}}) {
    options.workers = workers;
    options.chain = chain;
    const auto plan = Job{options, 64}.plan;
    ChaosPlan chaos{plan, 1, {kill, stop, cut, slow_control}};
    std::map<ChaosKind, std::set<StepPhase>> phases;
    bool redirected = false;
    for (int i = 0; i < 400; ++i) {
      auto strike = chaos.next(9);
      std::vector<uint32_t> members;
      for (const auto& wish : strike.wishes) {
        if (wish.role.kind == RoleKind::coordinator)
          continue;
        BOOST_TEST(wish.role.index < workers);
        members.push_back(wish.role.index);
        phases[wish.kind].insert(wish.phases.back());
        BOOST_TEST(
          (wish.kind != slow_control || wish.role.kind == RoleKind::worker));
      }
      if (members.size() == 2) {
        const auto ahead = (members[0] + workers - members[1]) % workers;
        BOOST_TEST(std::min(ahead, workers - ahead) >= chain);
      }
      redirected = chaos.redirect(strike) || redirected;
      BOOST_TEST((strike.wishes.front().role.kind == RoleKind::coordinator
                  || strike.wishes.front().role.index < workers));
    }
    BOOST_TEST(redirected == (chain > 1));
    BOOST_TEST(phases[kill].contains(StepPhase::copy) == (chain > 1));
    BOOST_TEST(phases[kill].contains(StepPhase::seal)
               == (workers >= 2 * chain));
    BOOST_CHECK_THROW((ChaosPlan{plan, 1, {nan}}), UsageError);
  }
}

BOOST_AUTO_TEST_CASE(readers_are_killed_and_stopped_too) {
  using enum ChaosKind;
  JobOptions options;
  options.model = "mlp:784-8-10";
  options.strategy = Strategy::multi_worker_mirrored;
  options.workers = 2;
  options.data_access.readers = 2;
  options.processes = true;
  options.devices = {"cpu:0"};
  ChaosPlan chaos{Job{options, 64}.plan, 1, {kill, stop, slow, cut, flip}};
  std::map<ChaosKind, std::set<uint32_t>> struck;
  for (int i = 0; i < 300; ++i)
    for (const auto& wish : chaos.next(9).wishes)
      if (wish.role.kind == RoleKind::reader) {
        struck[wish.kind].insert(wish.role.index);
        BOOST_TEST((wish.phases == std::vector{StepPhase::at_once}));
        BOOST_TEST(may_strike(wish.kind, RoleKind::reader, StepPhase::at_once));
      }
  BOOST_TEST(struck.size() == 2u);
  for (auto kind : {kill, stop})
    BOOST_TEST((struck[kind] == std::set<uint32_t>{0, 1}));
}

BOOST_AUTO_TEST_CASE(the_same_seed_draws_the_same_faults) {
  const auto plan = served(3, 2, 2);
  ChaosPlan one{plan, 7};
  ChaosPlan same{plan, 7};
  ChaosPlan other{plan, 8};
  bool differs = false;
  for (int i = 0; i < 50; ++i) {
    const auto a = one.next(9);
    const auto b = same.next(9);
    const auto c = other.next(9);
    BOOST_TEST((a.wishes.front().role == b.wishes.front().role));
    BOOST_TEST((a.wishes.front().phases == b.wishes.front().phases));
    BOOST_TEST(a.steps_before == b.steps_before);
    differs = differs || a.steps_before != c.steps_before;
  }
  BOOST_TEST(differs);
}

BOOST_AUTO_TEST_CASE(every_phase_comes_as_often_as_the_others) {
  const auto plan = served(3, 2, 2);
  ChaosPlan chaos{plan, 1};
  std::map<StepPhase, int> count;
  for (int i = 0; i < 1100; ++i)
    ++count[chaos.next(9).wishes.front().phases.back()];
  for (auto phase :
       {StepPhase::pull, StepPhase::compute, StepPhase::push, StepPhase::reduce,
        StepPhase::forward, StepPhase::seal, StepPhase::copy})
    BOOST_TEST(count[phase] >= 100);
}

BOOST_AUTO_TEST_CASE(no_phase_is_rare_among_faults_of_all_kinds) {
  std::vector<ChaosKind> kinds; // but those that go with no others
  for (uint32_t i = 0; i < chaos_kinds; ++i)
    if (const auto kind = static_cast<ChaosKind>(i); !is_of_hosts(kind))
      kinds.push_back(kind);
  ChaosPlan chaos{served(4, 2, 2), 6, kinds};
  std::map<StepPhase, int> count;
  for (uint64_t faults = 0; faults < 500;) {
    const auto strike = chaos.next(500 - faults);
    ++count[strike.wishes.front().phases.back()];
    faults += strike.faults();
  }
  for (auto phase :
       {StepPhase::pull, StepPhase::compute, StepPhase::push, StepPhase::reduce,
        StepPhase::forward, StepPhase::seal, StepPhase::copy})
    BOOST_TEST(count[phase] >= 10);
}

BOOST_AUTO_TEST_CASE(two_of_one_chain_never_die_at_once) {
  const auto plan = served(3, 2, 2);
  ChaosPlan chaos{plan, 3};
  for (int i = 0; i < 1000; ++i) {
    const auto strike = chaos.next(9);
    std::set<std::pair<RoleKind, uint32_t>> chains;
    for (const auto& wish : strike.wishes) {
      const auto chain = wish.role.kind == RoleKind::shard ? wish.role.index % 2
                                                           : wish.role.index;
      BOOST_TEST(chains.insert({wish.role.kind, chain}).second);
      BOOST_TEST(wish.role.index
                 < (wish.role.kind == RoleKind::shard ? 4u : 3u));
    }
  }
}

BOOST_AUTO_TEST_CASE(the_coordinator_dies_too_alone_and_while_others_do) {
  ChaosPlan chaos{served(3, 2, 2), 3};
  std::map<size_t, int> strikes;
  for (int i = 0; i < 110; ++i) {
    const auto strike = chaos.next(9);
    if (strike.wishes.front().role.kind == RoleKind::coordinator)
      ++strikes[strike.wishes.size()];
  }
  BOOST_TEST(strikes[1] == 10);
  BOOST_TEST(strikes[2] == 10);
}

BOOST_AUTO_TEST_CASE(no_more_die_than_are_asked_for) {
  ChaosPlan chaos{served(3, 2, 2), 5};
  for (int i = 0; i < 100; ++i) {
    const auto strike = chaos.next(1);
    BOOST_TEST(strike.wishes.size() == 1u);
    BOOST_TEST(strike.wishes.front().phases.size() == 1u);
  }
}

BOOST_AUTO_TEST_CASE(
  kinds_take_turns_and_deaths_have_one_more_for_each_case_of_their_own) {
  using enum ChaosKind;
  ChaosPlan chaos{served(3, 2, 2), 1, {kill, stop, slow, cut}};
  std::map<ChaosKind, std::set<StepPhase>> phases;
  std::map<ChaosKind, int> count;
  uint32_t shortest = 1'000;
  uint32_t longest = 0;
  for (int i = 0; i < 800; ++i) {
    const auto wish = chaos.next(9).wishes.front();
    ++count[wish.kind];
    phases[wish.kind].insert(wish.phases.front());
    if (wish.kind == stop) {
      shortest = std::min(shortest, wish.amount);
      longest = std::max(longest, wish.amount);
    }
    BOOST_TEST((wish.kind == kill || wish.kind == stop
                || wish.role.kind != RoleKind::coordinator));
    BOOST_TEST((wish.kind != slow || wish.role.kind == RoleKind::worker));
  }
  for (auto kind : {stop, slow, cut})
    BOOST_TEST(count[kind] == 100);
  BOOST_TEST(count[kill] == 500); // seal: three roles; copy: one
  BOOST_TEST(phases[stop].size() == 6u);
  BOOST_TEST(phases[cut].size() == 5u);
  BOOST_TEST(shortest < borne_pause_ms);
  BOOST_TEST(longest > 2'000u);
}

BOOST_AUTO_TEST_CASE(links_of_an_all_reduce_fail_too) {
  using enum ChaosKind;
  JobOptions options;
  options.model = "mlp:784-8-10";
  options.strategy = Strategy::multi_worker_mirrored;
  options.workers = 3;
  options.processes = true;
  options.devices = {"cpu:0"};
  const auto replicas = Job{options, 64}.plan;
  ChaosPlan chaos{replicas, 1, {cut, flip, stall, one_way, throttle}};
  std::set<StepPhase> cuts;
  for (int i = 0; i < 70; ++i) {
    const auto wish = chaos.next(9).wishes.front();
    BOOST_TEST((wish.role.kind == RoleKind::worker));
    BOOST_TEST((wish.phases.front() == StepPhase::at_once || wish.kind == cut));
    BOOST_TEST((lasts(wish.kind) == (wish.amount >= 100) || wish.kind == cut));
    if (wish.kind == cut)
      cuts.insert(wish.phases.front());
  }
  BOOST_TEST(cuts.size() == 4u);
  options.workers = 1;
  const auto alone = Job{options, 64}.plan;
  BOOST_CHECK_THROW(ChaosPlan(alone, 1, {flip}), UsageError);
  BOOST_CHECK_THROW(ChaosPlan(alone, 1, {cut}), UsageError);
}

BOOST_AUTO_TEST_CASE(kinds_strike_only_whom_and_where_they_can) {
  for (uint32_t i = 0; i < chaos_kinds; ++i) {
    const auto kind = static_cast<ChaosKind>(i);
    ChaosKind read{};
    BOOST_TEST(parse(to_string(kind), read));
    BOOST_TEST((read == kind));
    ChaosPlan chaos{served(3, 2, 2), 1, {kind}};
    for (int strike = 0; strike < 40; ++strike)
      for (const auto& wish : chaos.next(9).wishes)
        BOOST_TEST(may_strike(wish.kind, wish.role.kind, wish.phases.front()));
  }
  using enum ChaosKind;
  BOOST_TEST(!may_strike(nan, RoleKind::shard, StepPhase::compute));
  BOOST_TEST(!may_strike(device, RoleKind::worker, StepPhase::push));
  BOOST_TEST(!may_strike(full_disk, RoleKind::worker, StepPhase::at_once));
  BOOST_TEST(
    !may_strike(cut_control, RoleKind::coordinator, StepPhase::at_once));
  BOOST_TEST(!may_strike(slow_control, RoleKind::worker, StepPhase::push));
  BOOST_TEST(
    (loses_role(kill) && loses_role(device) && loses_role(cut_control)));
  BOOST_TEST(
    (!loses_role(nan) && !loses_role(full_disk) && !loses_role(slow_control)));
  BOOST_TEST((loses_role(memory) && !loses_role(slow_disk)));
  for (auto kind : {signal_all, unreadable, slow_disk}) {
    BOOST_TEST(may_strike(kind, RoleKind::coordinator, StepPhase::at_once));
    BOOST_TEST(!may_strike(kind, RoleKind::worker, StepPhase::at_once));
    BOOST_TEST((ends_job(kind) == (kind != slow_disk)));
  }
}

BOOST_AUTO_TEST_CASE(no_worker_lacks_memory_twice_in_a_row) {
  using enum ChaosKind;
  ChaosPlan chaos{served(3, 2, 2), 4, {memory, stop}};
  std::set<RoleId> lacked;
  int count = 0;
  for (int i = 0; i < 200; ++i) {
    const auto wish = chaos.next(9).wishes.front();
    if (wish.kind == memory) {
      ++count;
      BOOST_TEST(lacked.insert(wish.role).second);
    } else if (wish.kind == kill) {
      lacked.erase(wish.role);
    }
  }
  BOOST_TEST(count >= 50);
}

BOOST_AUTO_TEST_CASE(a_strike_goes_to_another_replica_of_its_chain) {
  const ChaosPlan chained{served(3, 2, 2), 1};
  ChaosPlan::Strike strike;
  strike.wishes = {{{RoleKind::shard, 1}, {StepPhase::forward}, 0}};
  BOOST_TEST(chained.redirect(strike));
  BOOST_TEST(strike.wishes.front().role.index == 3u);
  BOOST_TEST(chained.redirect(strike));
  BOOST_TEST(strike.wishes.front().role.index == 1u);
  strike.wishes.front().role = {RoleKind::worker, 0};
  BOOST_TEST(!chained.redirect(strike));
  strike.wishes.front().role = {RoleKind::shard, 0};
  BOOST_TEST(!ChaosPlan(served(3, 2, 1), 1).redirect(strike));
}

BOOST_AUTO_TEST_CASE(two_workers_that_keep_the_dense_variables_are_a_chain) {
  auto plan = served(2, 2, 1);
  const auto both_die = [&] {
    ChaosPlan chaos{plan, 3};
    for (int i = 0; i < 500; ++i) {
      const auto strike = chaos.next(9);
      if (strike.wishes.size() == 2
          && strike.wishes[0].role.kind == RoleKind::worker
          && strike.wishes[1].role.kind == RoleKind::worker)
        return true;
    }
    return false;
  };
  BOOST_TEST(both_die());
  plan.dense_reduced = true;
  BOOST_TEST(!both_die());
}

BOOST_AUTO_TEST_CASE(hosts_are_struck_where_any_role_is) {
  std::set<RoleKind> kinds;
  ChaosPlan plan{
    served(3, 2, 2), 1, {ChaosKind::host_kill, ChaosKind::host_cut}};
  for (int i = 0; i < 40; ++i) {
    const auto strike = plan.next(8);
    const auto& wish = strike.wishes.front();
    BOOST_TEST((wish.phases == std::vector{StepPhase::at_once}));
    BOOST_TEST(wish.amount >= 200u);
    BOOST_TEST(wish.amount <= 30'000u);
    kinds.insert(wish.role.kind);
  }
  BOOST_TEST(kinds.contains(RoleKind::worker));
  BOOST_TEST(kinds.contains(RoleKind::coordinator));
}

BOOST_AUTO_TEST_SUITE_END()
