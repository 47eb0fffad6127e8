#include "strategies/placement.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(placement)

namespace {

using Hosts = std::vector<HostSlots>;

Plan served(uint32_t workers, uint32_t shards, uint32_t chain = 1) {
  Plan plan;
  plan.strategy = Strategy::parameter_server;
  plan.owner_kind = RoleKind::shard;
  plan.owners = shards;
  plan.chain = chain;
  for (uint32_t i = 0; i < workers; ++i)
    plan.roles.push_back({{RoleKind::worker, i}, "cpu:0", {}, {}});
  for (uint32_t i = 0; i < shards * chain; ++i)
    plan.roles.push_back({{RoleKind::shard, i}, "cpu", {}, {}});
  return plan;
}

Plan of(RoleKind kind, uint32_t count) {
  Plan plan;
  plan.owner_kind = kind;
  plan.owners = count;
  plan.group = kind == RoleKind::tensor ? count : 1;
  for (uint32_t i = 0; i < count; ++i)
    plan.roles.push_back({{kind, i}, "cpu:0", {}, {}});
  return plan;
}

/// A worker and a shard in each process.
Plan shared(uint32_t workers, uint32_t chain = 1) {
  auto plan = served(workers, workers);
  plan.strategy = Strategy::fully_sharded;
  plan.paired = true;
  plan.chain = chain;
  return plan;
}

Placement placed(Hosts hosts, const Plan& plan) {
  Placement out{std::move(hosts)};
  std::string mistake;
  BOOST_TEST_REQUIRE(out.place(plan, mistake), mistake);
  return out;
}

std::string refused(Hosts hosts, const Plan& plan) {
  Placement out{std::move(hosts)};
  std::string mistake;
  BOOST_TEST(!out.place(plan, mistake));
  return mistake;
}

std::string on(const Placement& placement, size_t host) {
  return to_string(placement.on(host));
}

} // namespace

BOOST_AUTO_TEST_CASE(hosts_are_read_with_their_slots) {
  Hosts hosts;
  std::string mistake;
  BOOST_TEST_REQUIRE(
    parse_hosts("a:4,user@b,[fe80::1]:2,fe80::2", hosts, mistake));
  BOOST_TEST(hosts.size() == 4u);
  BOOST_TEST(hosts[0].name == "a");
  BOOST_TEST(hosts[0].slots == 4u);
  BOOST_TEST(hosts[1].name == "user@b");
  BOOST_TEST(hosts[1].slots == 1u);
  BOOST_TEST(hosts[2].name == "fe80::1");
  BOOST_TEST(hosts[2].slots == 2u);
  BOOST_TEST(hosts[3].name == "fe80::2");
}

BOOST_AUTO_TEST_CASE(what_is_no_list_of_hosts_is_refused) {
  Hosts hosts;
  std::string mistake;
  // A name that begins with a dash would be an option of ssh's.
  for (const auto* text : {"", "a,,b", ":4", "a:", "a:0", "a:10001", "a:x",
                           "-oProxyCommand=x", "a b", "a,a:2"}) {
    mistake.clear();
    BOOST_TEST(!parse_hosts(text, hosts, mistake), text);
    BOOST_TEST(!mistake.empty());
  }
}

BOOST_AUTO_TEST_CASE(a_file_of_hosts_gives_slots_and_addresses) {
  Hosts hosts;
  std::map<std::string, std::string> addresses;
  std::string mistake;
  BOOST_TEST_REQUIRE(parse_host_lines("# the rack\n\nb slots=2 # left\n"
                                      "c:3 address=10.0.0.3\n",
                                      hosts, addresses, mistake));
  BOOST_TEST(hosts.size() == 2u);
  BOOST_TEST(hosts[0].slots == 2u);
  BOOST_TEST(hosts[1].slots == 3u);
  BOOST_TEST(addresses.size() == 1u);
  BOOST_TEST(addresses["c"] == "10.0.0.3");
  BOOST_TEST(!parse_host_lines("b\nc slot=2\n", hosts, addresses, mistake));
  BOOST_TEST(mistake.starts_with("line 2: "));
  BOOST_TEST(!parse_host_lines("# none\n", hosts, addresses, mistake));
}

BOOST_AUTO_TEST_CASE(shards_are_shared_and_neighbours_stay_together) {
  const auto all = placed({{"a", 4}, {"b", 4}}, served(4, 2));
  BOOST_TEST(on(all, 0) == "worker:0, worker:1, ps:0");
  BOOST_TEST(on(all, 1) == "worker:2, worker:3, ps:1");
}

BOOST_AUTO_TEST_CASE(replicas_of_a_chain_are_on_different_hosts) {
  for (uint32_t hosts = 2; hosts <= 5; ++hosts)
    for (uint32_t chain = 1; chain <= hosts; ++chain)
      for (uint32_t shards = 1; shards <= 7; ++shards) {
        Hosts where;
        for (uint32_t i = 0; i < hosts; ++i)
          where.push_back({"h" + std::to_string(i), shards + i});
        const auto plan = served(1, shards, chain);
        Placement all{where};
        std::string mistake;
        // A host with a slot for a replica of each chain: there is room.
        if (!all.place(plan, mistake)) {
          BOOST_TEST(mistake.find("slot") != std::string::npos);
          continue;
        }
        for (uint32_t owner = 0; owner < shards; ++owner) {
          std::set<size_t> used;
          for (uint32_t k = 0; k < chain; ++k)
            used.insert(all.roles().at({RoleKind::shard, owner + k * shards}));
          BOOST_TEST(used.size() == chain);
        }
      }
}

BOOST_AUTO_TEST_CASE(heads_of_chains_are_shared) {
  const auto all = placed({{"a", 4}, {"b", 4}}, served(2, 2, 2));
  BOOST_TEST(on(all, 0) == "worker:0, ps:0, ps:3");
  BOOST_TEST(on(all, 1) == "worker:1, ps:1, ps:2");
}

// They were refused.
BOOST_AUTO_TEST_CASE(a_worker_and_its_shard_take_one_slot) {
  const auto plan = shared(4);
  const auto all = placed({{"a", 2}, {"b", 2}}, plan);
  BOOST_TEST(on(all, 0) == "worker:0, worker:1");
  BOOST_TEST(on(all, 1) == "worker:2, worker:3");
  BOOST_TEST(all.links(plan).size() == 1u);
  BOOST_TEST(
    refused({{"a", 2}, {"b", 1}}, plan)
    == "4 roles and 3 slots: each worker, shard, stage, member and reader "
       "takes one; give hosts more slots, as in a:3");
}

BOOST_AUTO_TEST_CASE(replicas_of_a_workers_share_are_on_other_hosts) {
  const auto all = placed({{"a", 1}, {"b", 3}, {"c", 2}}, shared(5, 2));
  BOOST_TEST(on(all, 0) == "worker:0");
  BOOST_TEST(on(all, 1) == "worker:1, worker:3");
  BOOST_TEST(on(all, 2) == "worker:2, worker:4");
  BOOST_TEST(refused({{"a", 4}}, shared(4, 2)).starts_with("--chain 2 on 1 "));
}

BOOST_AUTO_TEST_CASE(no_host_gets_more_roles_than_it_has_slots) {
  for (uint32_t workers = 1; workers <= 9; ++workers) {
    const auto all = placed({{"a", 1}, {"b", 5}, {"c", 3}},
                            of(RoleKind::worker, workers));
    for (size_t host = 0; host < 3; ++host)
      BOOST_TEST(all.on(host).size() <= all.hosts()[host].slots);
    // In order: a neighbour is on the same host, or on a later one.
    for (uint32_t i = 1; i < workers; ++i)
      BOOST_TEST(all.roles().at({RoleKind::worker, i - 1})
                 <= all.roles().at({RoleKind::worker, i}));
  }
}

BOOST_AUTO_TEST_CASE(stages_are_apart_and_few_activations_cross) {
  const auto all = placed({{"a", 4}, {"b", 4}, {"c", 4}},
                          of(RoleKind::stage, 6));
  BOOST_TEST(on(all, 0) == "stage:0, stage:1");
  BOOST_TEST(on(all, 1) == "stage:2, stage:3");
  BOOST_TEST(on(all, 2) == "stage:4, stage:5");
}

BOOST_AUTO_TEST_CASE(a_host_without_slots_gets_no_role) {
  const auto one = placed({{"a", 2}, {"b", 0}, {"c", 1}},
                          of(RoleKind::stage, 3));
  BOOST_TEST(one.on(0).size() == 2u);
  BOOST_TEST(one.on(1).empty());
  BOOST_TEST(!one.used(1));
  BOOST_TEST(one.on(2).size() == 1u);
  BOOST_TEST(refused({{"a", 2}, {"b", 0}}, of(RoleKind::stage, 3))
               .starts_with("3 roles and 2 slots"));
}

BOOST_AUTO_TEST_CASE(tensor_members_are_placed_and_all_talk) {
  const auto plan = of(RoleKind::tensor, 4);
  const auto all = placed({{"a", 2}, {"b", 1}, {"c", 1}}, plan);
  BOOST_TEST(on(all, 0) == "tensor:0, tensor:1");
  BOOST_TEST(on(all, 2) == "tensor:3");
  BOOST_TEST(all.links(plan).size() == 3u);
  BOOST_TEST(refused({{"a", 3}}, plan).starts_with("4 roles and 3 slots"));
  // In two groups, each on two hosts, only peers talk to another group.
  auto groups = plan;
  groups.owner_kind = RoleKind::tensor;
  groups.owners = groups.group = groups.chain = 2;
  const auto apart = placed({{"a", 1}, {"b", 1}, {"c", 1}, {"d", 1}}, groups);
  BOOST_TEST(
    (apart.links(groups)
     == std::set<std::pair<size_t, size_t>>{{0, 1}, {2, 3}, {0, 2}, {1, 3}}));
}

BOOST_AUTO_TEST_CASE(workers_beside_shards_talk_where_passes_wait) {
  const auto plan = served(2, 1);
  const auto all = placed({{"a", 1}, {"b", 1}, {"c", 1}}, plan);
  BOOST_TEST(all.links(plan).size() == 2u);
  BOOST_TEST(all.links(plan, true).size() == 3u);
}

BOOST_AUTO_TEST_CASE(stages_beside_shards_talk_to_them) {
  auto plan = served(0, 1);
  plan.served = Mesh{2, 1, 1}; // two pipelines of a stage
  for (uint32_t i = 0; i < 2; ++i)
    plan.roles.push_back({{RoleKind::stage, i}, "cpu:0", {}, {}});
  const auto all = placed({{"a", 1}, {"b", 1}, {"c", 1}}, plan);
  BOOST_TEST(all.links(plan).size() == 2u);
  BOOST_TEST(all.links(plan, true).size() == 3u); // in lock step
  plan.served = Mesh{1, 4, 1}; // stages beside each other talk, in a round
  for (uint32_t i = 2; i < 4; ++i)
    plan.roles.push_back({{RoleKind::stage, i}, "cpu:0", {}, {}});
  const auto apart = placed({{"a", 1}, {"b", 1}, {"c", 1}, {"d", 1}, {"e", 1}},
                            plan);
  BOOST_TEST(apart.links(plan).size() == 4u + 4u);
}

BOOST_AUTO_TEST_CASE(readers_take_slots_and_talk_to_workers_alone) {
  auto plan = served(1, 1);
  plan.roles.push_back({{RoleKind::reader, 0}, "cpu", {}, {}});
  plan.roles.push_back({{RoleKind::reader, 1}, "cpu", {}, {}});
  const auto all = placed({{"a", 1}, {"b", 1}, {"c", 1}, {"d", 1}}, plan);
  const auto host = [&](RoleId role) { return all.roles().at(role); };
  const auto worker = host({RoleKind::worker, 0});
  std::set<std::pair<size_t, size_t>> expected;
  for (size_t other = 0; other < 4; ++other)
    if (other != worker)
      expected.insert(std::minmax(other, worker));
  BOOST_TEST((all.links(plan) == expected));
  BOOST_TEST(refused({{"a", 3}}, plan).starts_with("4 roles and 3 slots"));
}

BOOST_AUTO_TEST_CASE(too_few_slots_or_hosts_are_said_with_what_helps) {
  BOOST_TEST(
    refused({{"a", 2}, {"b", 1}}, served(3, 1))
    == "4 roles and 3 slots: each worker, shard, stage, member and reader "
       "takes one; give hosts more slots, as in a:3");
  BOOST_TEST(refused({{"a", 9}, {"b", 9}}, served(1, 1, 3))
               .starts_with("--chain 3 on 2 hosts"));
}

BOOST_AUTO_TEST_CASE(links_are_between_those_that_talk) {
  using Pairs = std::set<std::pair<size_t, size_t>>;
  const Hosts three{{"a", 2}, {"b", 2}, {"c", 2}};
  const auto replicas = of(RoleKind::worker, 3);
  BOOST_TEST(
    (placed(three, replicas).links(replicas) == Pairs{{0, 1}, {0, 2}, {1, 2}}));
  // One shard and three workers: workers do not talk to each other.
  const auto one = served(3, 1);
  const auto all = placed(three, one);
  const auto home = all.roles().at({RoleKind::shard, 0});
  for (const auto& [here, there] : all.links(one))
    BOOST_TEST((here == home || there == home));
  BOOST_TEST(all.links(one, true).size() == 3u); // at norms they do
  auto reduced = one;
  reduced.dense_reduced = true;
  BOOST_TEST(all.links(reduced).size() == 3u);
  const auto stages = of(RoleKind::stage, 6);
  Hosts six;
  for (int i = 0; i < 6; ++i)
    six.push_back({std::to_string(i), 1});
  BOOST_TEST((placed(six, stages).links(stages)
              == Pairs{{0, 1}, {0, 5}, {1, 2}, {2, 3}, {3, 4}, {4, 5}}));
  auto pipelines = stages; // two of three stages: 0-1-2 and 3-4-5
  pipelines.owners = 3;
  pipelines.chain = 2;
  BOOST_TEST((
    placed(six, pipelines).links(pipelines)
    == Pairs{
      {0, 1}, {0, 2}, {1, 2}, {3, 4}, {3, 5}, {4, 5}, {0, 3}, {1, 4}, {2, 5}}));
  BOOST_TEST(placed({{"a", 3}}, replicas).links(replicas).empty());
}

BOOST_AUTO_TEST_CASE(a_role_that_comes_later_gets_the_emptiest_host) {
  auto all = placed({{"a", 2}, {"b", 4}}, of(RoleKind::worker, 3));
  const RoleId late{RoleKind::worker, 3};
  BOOST_TEST(all.host_of(late) == 1u);
  BOOST_TEST(all.host_of(late) == 1u);
  for (uint32_t i = 4; i < 8; ++i) // beyond the slots, too
    BOOST_TEST(all.host_of({RoleKind::worker, i}) < 2u);
}

BOOST_AUTO_TEST_SUITE_END()
