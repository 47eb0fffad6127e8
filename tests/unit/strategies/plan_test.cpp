#include "strategies/plan.hpp"

#include <boost/test/unit_test.hpp>

#include <numeric>
#include <set>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(plan)

namespace {

const std::vector<Variable> some_variables{
  {"fc1.weight", {512, 784}}, {"fc1.bias", {512}}, {"fc2.weight", {10, 512}},
  {"fc2.bias", {10}},         {"scale", {}},
};

PlanOptions mirrored(uint32_t devices) {
  PlanOptions out;
  for (uint32_t i = 0; i < devices; ++i)
    out.devices.push_back("cpu:" + std::to_string(i));
  return out;
}

PlanOptions parameter_server(uint32_t workers, uint32_t shards) {
  auto out = mirrored(2);
  out.strategy = Strategy::parameter_server;
  out.workers = workers;
  out.shards = shards;
  out.processes = true;
  return out;
}

Plan planned(const PlanOptions& options) {
  Plan plan;
  PlanError error;
  BOOST_REQUIRE_MESSAGE(make_plan(options, some_variables, plan, error),
                        error.message);
  return plan;
}

/// Returns the error's line; the plan must stay as it was.
std::string refusal(const PlanOptions& options) {
  Plan plan;
  plan.reduction = "untouched";
  PlanError error;
  BOOST_TEST(!make_plan(options, some_variables, plan, error));
  BOOST_TEST(plan.reduction == "untouched");
  BOOST_TEST(plan.roles.empty());
  return error.message;
}

/// Checks what holds for every plan.
void check(const Plan& plan) {
  // I1: each virtual rank has one worker.
  uint32_t next = 0;
  for (const auto& role : plan.of_kind(RoleKind::worker)) {
    BOOST_TEST(role.ranks.lo == next);
    BOOST_TEST(!role.ranks.empty());
    next = role.ranks.hi;
  }
  BOOST_TEST(next == plan.virtual_ranks);
  // Each slice has one owner, of the right kind, and both lists agree.
  std::vector<int> owned(plan.slices.size());
  for (const auto& role : plan.roles) {
    for (auto id : role.slices) {
      ++owned.at(id);
      BOOST_TEST((role.role.kind == plan.owner_kind));
      BOOST_TEST(plan.owner.at(id) == role.role.index);
    }
    if (role.role.kind != RoleKind::worker)
      BOOST_TEST(role.ranks.empty());
    BOOST_TEST(!role.device.empty());
  }
  for (auto n : owned)
    BOOST_TEST(n == 1);
  std::set<RoleId> names;
  for (const auto& role : plan.roles)
    BOOST_TEST(names.insert(role.role).second);
  BOOST_TEST(names.contains({RoleKind::coordinator, 0}));
  BOOST_TEST(names.contains({RoleKind::evaluator, 0}));
}

} // namespace

BOOST_AUTO_TEST_CASE(one_device_has_one_worker_that_owns_everything) {
  auto options = mirrored(1);
  options.strategy = Strategy::one_device;
  auto plan = planned(options);
  check(plan);
  auto workers = plan.of_kind(RoleKind::worker);
  BOOST_TEST(workers.size() == 1u);
  BOOST_TEST(workers[0].device == "cpu:0");
  BOOST_TEST(workers[0].slices.size() == plan.slices.size());
  BOOST_TEST(plan.reduction == "local, fixed tree");
}

BOOST_AUTO_TEST_CASE(mirrored_has_one_worker_per_device) {
  for (uint32_t devices = 1; devices <= 17; ++devices) {
    auto options = mirrored(devices);
    options.virtual_ranks = 17;
    auto plan = planned(options);
    check(plan);
    BOOST_TEST((plan.owner_kind == RoleKind::worker));
    BOOST_TEST(plan.of_kind(RoleKind::shard).empty());
    auto workers = plan.of_kind(RoleKind::worker);
    BOOST_TEST(workers.size() == devices);
    for (uint32_t i = 0; i < devices; ++i)
      BOOST_TEST(workers[i].device == options.devices[i]);
  }
}

BOOST_AUTO_TEST_CASE(replicas_of_a_shard_are_shards_with_its_slices) {
  auto options = parameter_server(2, 3);
  options.chain = 2;
  auto plan = planned(options);
  BOOST_TEST(plan.of_kind(RoleKind::shard).size() == 6u);
  for (const auto& slice : plan.slices) {
    const auto replicas = plan.replicas(slice.id);
    const auto owner = plan.owner[slice.id];
    BOOST_TEST((replicas == std::vector<uint32_t>{owner, owner + 3}));
  }
  for (uint32_t i = 0; i < 3; ++i)
    BOOST_TEST((plan.role({RoleKind::shard, i}).slices
                == plan.role({RoleKind::shard, i + 3}).slices));
}

BOOST_AUTO_TEST_CASE(replicas_need_shards) {
  auto options = parameter_server(2, 3);
  options.strategy = Strategy::mirrored;
  options.chain = 2;
  Plan plan;
  PlanError error;
  BOOST_TEST(!make_plan(options, {}, plan, error));
  BOOST_TEST(error.message.find("--chain 2") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(parameter_server_has_shards_that_own_the_slices) {
  for (uint32_t workers = 1; workers <= 17; ++workers)
    for (uint32_t shards = 1; shards <= 4; ++shards) {
      auto options = parameter_server(workers, shards);
      options.virtual_ranks = 17;
      auto plan = planned(options);
      check(plan);
      BOOST_TEST((plan.owner_kind == RoleKind::shard));
      auto all = plan.of_kind(RoleKind::worker);
      BOOST_TEST(all.size() == workers);
      for (uint32_t i = 0; i < workers; ++i)
        BOOST_TEST(all[i].device == options.devices[i % 2]);
      BOOST_TEST(plan.of_kind(RoleKind::shard).size() == shards);
      for (const auto& shard : plan.of_kind(RoleKind::shard))
        BOOST_TEST(shard.device == "cpu");
    }
}

BOOST_AUTO_TEST_CASE(slices_do_not_depend_on_who_owns_them) {
  // PROTOCOL 7, for partitioners that do not count shards.
  auto one = planned(mirrored(1));
  BOOST_TEST((one.slices == planned(mirrored(4)).slices));
  BOOST_TEST((one.slices == planned(parameter_server(2, 3)).slices));
}

BOOST_AUTO_TEST_CASE(async_is_for_parameter_server_alone) {
  auto options = parameter_server(2, 2);
  options.synchronisation = Synchronisation::async;
  auto plan = planned(options);
  check(plan);
  BOOST_TEST(plan.reduction == "none: a shard applies each push on arrival");
  options.strategy = Strategy::mirrored;
  BOOST_TEST(refusal(options)
             == "strategy mirrored is synchronous: drop --async or add "
                "--strategy parameter_server");
}

BOOST_AUTO_TEST_CASE(more_members_than_virtual_ranks_are_refused) {
  // PROTOCOL 2.
  BOOST_TEST(refusal(parameter_server(5, 1))
             == "5 workers need at least 5 virtual ranks: add "
                "--virtual-ranks 5");
  BOOST_TEST(refusal(mirrored(6))
             == "6 devices need at least 6 virtual ranks: add "
                "--virtual-ranks 6");
  planned(parameter_server(4, 9)); // shards may be more
}

BOOST_AUTO_TEST_CASE(more_virtual_ranks_than_samples_are_refused) {
  auto options = mirrored(2);
  options.virtual_ranks = 8;
  options.global_batch = 7;
  BOOST_TEST(refusal(options)
             == "8 virtual ranks need a global batch of at least 8: add "
                "--global-batch 8");
}

BOOST_AUTO_TEST_CASE(readers_are_roles_of_two_strategies_and_no_others) {
  auto options = mirrored(1);
  options.readers = 2;
  for (const auto strategy :
       {Strategy::parameter_server, Strategy::multi_worker_mirrored}) {
    options.strategy = strategy;
    Plan plan;
    PlanError error;
    BOOST_REQUIRE(make_plan(options, some_variables, plan, error));
    const auto readers = plan.of_kind(RoleKind::reader);
    BOOST_REQUIRE(readers.size() == 2u);
    BOOST_TEST(readers[1].role.index == 1u);
    BOOST_TEST(readers[1].slices.empty());
    BOOST_TEST(readers[1].ranks.empty());
    BOOST_TEST(to_table(plan).find("reader:1") != std::string::npos);
  }
  options.strategy = Strategy::mirrored;
  BOOST_TEST(refusal(options)
             == "--readers 2 serve the workers of parameter_server and "
                "multi_worker_mirrored alone as yet, not those of strategy "
                "mirrored: drop it, or use one of the two");
}

BOOST_AUTO_TEST_CASE(pipelines_side_by_side_hold_all_layers_each) {
  auto options = mirrored(1);
  options.strategy = Strategy::hybrid;
  StageLayers first;
  first.end = 2;
  first.variables = {0};
  StageLayers last{2, 3, "head", "loss", {}, 7, 16, 8, 1};
  for (uint32_t i = 1; i < some_variables.size(); ++i)
    last.variables.push_back(i);
  options.stages = {first, last};
  options.schedule = "1f1b";
  options.data = 3;
  options.virtual_ranks = 4;
  Plan plan;
  PlanError error;
  BOOST_REQUIRE(make_plan(options, some_variables, plan, error));
  const auto stages = plan.of_kind(RoleKind::stage);
  BOOST_REQUIRE(stages.size() == 6u);
  BOOST_TEST(plan.owners == 2u);
  for (uint32_t member = 0; member < 6; ++member) {
    BOOST_TEST(stages[member].role.index == member);
    BOOST_TEST((stages[member].ranks == ranks_of_worker(member / 2, 3, 4)));
    BOOST_TEST(stages[member].slices == stages[member % 2].slices);
  }
  for (const auto& slice : plan.slices) {
    const uint32_t stage = slice.variable == 0 ? 0 : 1;
    BOOST_TEST((plan.replicas(slice.id)
                == std::vector<uint32_t>{stage, stage + 2, stage + 4}));
  }
  const auto table = to_table(plan);
  for (const auto* shown :
       {"pipeline 2       stage:4, stage:5\n",
        "stage:1, stage:3, stage:5  head to loss",
        "over 3 pipelines by direct exchange, fixed tree; schedule 1f1b"})
    BOOST_TEST(table.find(shown) != std::string::npos, table);
  options.data = 5;
  BOOST_TEST(refusal(options)
             == "--mesh data=5: 5 pipelines need at least 5 virtual ranks: "
                "add --virtual-ranks 5");
}

namespace {

/// The first variable is the second member's, the others are everybody's.
std::vector<TensorShare> two_members() {
  std::vector<uint32_t> all;
  for (uint32_t i = 0; i < some_variables.size(); ++i)
    all.push_back(i);
  std::vector<TensorShare> out{
    {{0, 2}, {all.begin() + 1, all.end()}, {}, 7, 1, 1, 16},
    {{2, 4}, all, {0}, 7, 1, 1, 16}};
  out[0].shows = out[0].variables;
  return out;
}

} // namespace

BOOST_AUTO_TEST_CASE(groups_of_tensor_members_hold_all_slices_each) {
  auto options = mirrored(1);
  options.strategy = Strategy::hybrid;
  options.tensor = two_members();
  options.data = 3;
  options.virtual_ranks = 4;
  Plan plan;
  PlanError error;
  BOOST_REQUIRE(make_plan(options, some_variables, plan, error));
  BOOST_TEST((plan.owner_kind == RoleKind::tensor));
  BOOST_TEST(plan.owners == 2u);
  BOOST_TEST(plan.chain == 3u);
  BOOST_TEST(plan.of_kind(RoleKind::stage).empty());
  const auto members = plan.of_kind(RoleKind::tensor);
  BOOST_REQUIRE(members.size() == 6u);
  for (uint32_t member = 0; member < 6; ++member) {
    BOOST_TEST(members[member].role.index == member);
    BOOST_TEST((members[member].ranks == ranks_of_worker(member / 2, 3, 4)));
    BOOST_TEST(members[member].slices == members[member % 2].slices);
    BOOST_TEST(
      (plan.share(members[member].role) == options.tensor[member % 2]));
  }
  for (const auto& slice : plan.slices) {
    const uint32_t owner = slice.variable == 0 ? 1 : 0;
    BOOST_TEST((plan.replicas(slice.id)
                == std::vector<uint32_t>{owner, owner + 2, owner + 4}));
  }
  const auto table = to_table(plan);
  for (const auto* shown :
       {"group 2          tensor:4, tensor:5\n",
        "tensor:1, tensor:3, tensor:5  2-3 ",
        ("at each member, over 3 groups by direct exchange, fixed tree; of "
         "slices by direct exchange"),
        "tensor:1,tensor:3,tensor:5\n", "every member"})
    BOOST_TEST(table.find(shown) != std::string::npos, table);
  options.data = 5;
  BOOST_TEST(refusal(options)
             == "--mesh data=5: 5 groups need at least 5 virtual ranks: add "
                "--virtual-ranks 5");
  options.data = 2;
  options.devices = {"pjrt:libtpu.so:0"};
  BOOST_TEST(refusal(options).find("hybrid has its members on CPUs and GPUs")
             != std::string::npos);
}

BOOST_AUTO_TEST_CASE(stages_of_tensor_members_are_named_by_their_places) {
  auto options = mirrored(1);
  options.strategy = Strategy::hybrid;
  options.virtual_ranks = 4;
  options.data = 2;
  StageLayers first;
  first.end = 2;
  StageLayers last{2, 3, "head", "loss", {}, 7, 16, 8, 1};
  options.stages = {first, last};
  options.schedule = "1f1b";
  std::vector<uint32_t> rest;
  for (uint32_t i = 1; i < some_variables.size(); ++i)
    rest.push_back(i);
  options.tensor = {{{0, 2}, {0}, {0}, 7, 1, 1, 16},
                    {{2, 4}, {}, {}, 7, 1, 1, 16},
                    {{0, 2}, rest, {}, 7, 1, 1, 16},
                    {{2, 4}, rest, rest, 7, 1, 1, 16}};
  Plan plan;
  PlanError error;
  BOOST_REQUIRE(make_plan(options, some_variables, plan, error));
  BOOST_TEST((plan.owner_kind == RoleKind::tensor));
  BOOST_TEST((plan.mesh() == Mesh{2, 2, 2}));
  BOOST_TEST(plan.owners == 4u);
  BOOST_TEST(plan.of_kind(RoleKind::stage).empty());
  const auto members = plan.of_kind(RoleKind::tensor);
  BOOST_REQUIRE(members.size() == 8u);
  for (uint32_t member = 0; member < 8; ++member) {
    BOOST_TEST((members[member].ranks == ranks_of_worker(member / 4, 2, 4)));
    BOOST_TEST(
      (plan.share(members[member].role) == options.tensor[member % 4]));
  }
  for (const auto& slice : plan.slices) {
    const uint32_t owner = slice.variable == 0 ? 0 : 3;
    BOOST_TEST(
      (plan.replicas(slice.id) == std::vector<uint32_t>{owner, owner + 4}));
  }
  const auto table = to_table(plan);
  for (const auto* shown :
       {"pipeline 1       tensor:4 to tensor:7\n",
        "tensor:2, tensor:3, tensor:6, tensor:7  head to loss",
        "tensor:3, tensor:7  1      2-3 ", "every member of stage 1\n",
        ("at each member, over 2 pipelines by direct exchange, fixed tree; of "
         "slices by direct exchange, fixed tree; schedule 1f1b")})
    BOOST_TEST(table.find(shown) != std::string::npos, table);
}

BOOST_AUTO_TEST_CASE(a_stage_owns_the_variables_of_its_layers) {
  auto options = mirrored(1);
  options.strategy = Strategy::pipeline;
  StageLayers first;
  first.end = 2;
  first.variables = {0};
  StageLayers last{2, 3, "head", "loss", {}, 7, 16, 8, 1};
  for (uint32_t i = 1; i < some_variables.size(); ++i)
    last.variables.push_back(i);
  options.stages = {first, last};
  options.schedule = "1f1b";
  Plan plan;
  PlanError error;
  BOOST_REQUIRE(make_plan(options, some_variables, plan, error));
  BOOST_TEST((plan.owner_kind == RoleKind::stage));
  BOOST_TEST(plan.of_kind(RoleKind::worker).empty());
  const auto stages = plan.of_kind(RoleKind::stage);
  BOOST_REQUIRE(stages.size() == 2u);
  for (const auto& slice : plan.slices) {
    BOOST_TEST(plan.owner[slice.id] == (slice.variable == 0 ? 0u : 1u));
    BOOST_TEST(plan.on_shards(slice.id));
  }
  BOOST_TEST((stages[1].ranks == RankRange{0, options.virtual_ranks}));
  BOOST_TEST(to_table(plan).find("head to loss") != std::string::npos);
  // Two chunks of one stage, as well.
  options.chunks = 2;
  BOOST_REQUIRE(make_plan(options, some_variables, plan, error));
  BOOST_TEST(plan.of_kind(RoleKind::stage).size() == 1u);
  BOOST_TEST(plan.stages.size() == 2u);
  for (const auto& slice : plan.slices)
    BOOST_TEST(plan.owner[slice.id] == 0u);
  options.chunks = 1;
  options.devices = {"pjrt:x.so:0"};
  BOOST_TEST(refusal(options).find("--devices cpu:2 or cuda:0")
             != std::string::npos);
  options.devices = {"cpu:0"};
  options.chain = 2;
  BOOST_TEST(refusal(options).find("--chain 2") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(shards_may_keep_what_the_stages_of_pipelines_use) {
  auto options = mirrored(1);
  options.strategy = Strategy::hybrid;
  options.serves_stages = true;
  options.shards = 3;
  options.chain = 2;
  options.data = 2;
  StageLayers first;
  first.end = 2;
  first.variables = {0};
  StageLayers last{2, 3, "head", "loss", {}, 7, 16, 8, 1};
  for (uint32_t i = 1; i < some_variables.size(); ++i)
    last.variables.push_back(i);
  options.stages = {first, last};
  options.schedule = "1f1b";
  Plan plan;
  PlanError error;
  BOOST_REQUIRE_MESSAGE(make_plan(options, some_variables, plan, error),
                        error.message);
  BOOST_TEST((plan.owner_kind == RoleKind::shard));
  BOOST_TEST((plan.computing() == RoleKind::stage));
  BOOST_TEST((plan.mesh() == Mesh{2, 2, 1}));
  BOOST_TEST(plan.owners == 3u);
  BOOST_TEST(plan.chain == 2u);
  BOOST_TEST(plan.of_kind(RoleKind::worker).empty());
  BOOST_TEST(plan.of_kind(RoleKind::shard).size() == 6u);
  BOOST_TEST(plan.keeps({RoleKind::shard, 5}));
  BOOST_TEST(!plan.keeps({RoleKind::stage, 0}));
  const auto stages = plan.of_kind(RoleKind::stage);
  BOOST_REQUIRE(stages.size() == 4u);
  BOOST_TEST((stages[0].ranks == RankRange{0, 2}));
  BOOST_TEST((stages[3].ranks == RankRange{2, 4}));
  for (const auto& slice : plan.slices) {
    BOOST_TEST(plan.on_shards(slice.id));
    BOOST_TEST(plan.owner[slice.id] < 3u);
    for (const auto& stage : stages)
      BOOST_TEST(std::ranges::count(stage.slices, slice.id)
                 == ((stage.role.index % 2 == 0) == (slice.variable == 0)));
  }
  const auto table = to_table(plan);
  for (const auto* shown :
       {"pipeline 1       stage:2, stage:3\n", "stage:1, stage:3  head to loss",
        "  2-3            pulls ", "at the shards, fixed tree; schedule 1f1b"})
    BOOST_TEST(table.find(shown) != std::string::npos, table);
  options.shards = 0;
  BOOST_TEST(refusal(options).find("--ps 1") != std::string::npos);
  options.shards = 1;
  options.synchronisation = Synchronisation::async;
  BOOST_TEST(refusal(options).find("--async") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(shards_may_keep_what_tensor_members_use) {
  auto options = mirrored(1);
  options.strategy = Strategy::hybrid;
  options.serves_stages = true;
  options.shards = 3;
  options.data = 2;
  options.tensor = two_members();
  Plan plan;
  PlanError error;
  BOOST_REQUIRE_MESSAGE(make_plan(options, some_variables, plan, error),
                        error.message);
  BOOST_TEST((plan.owner_kind == RoleKind::shard));
  BOOST_TEST((plan.computing() == RoleKind::tensor));
  BOOST_TEST((plan.mesh() == Mesh{2, 1, 2}));
  BOOST_TEST(plan.owners == 3u);
  BOOST_TEST(plan.chain == 1u);
  BOOST_TEST(plan.of_kind(RoleKind::worker).empty());
  BOOST_TEST(plan.of_kind(RoleKind::stage).empty());
  BOOST_TEST(plan.of_kind(RoleKind::shard).size() == 3u);
  BOOST_TEST(!plan.keeps({RoleKind::tensor, 0}));
  const auto members = plan.of_kind(RoleKind::tensor);
  BOOST_REQUIRE(members.size() == 4u);
  BOOST_TEST((members[1].ranks == RankRange{0, 2}));
  BOOST_TEST((members[2].ranks == RankRange{2, 4}));
  // What both have is pulled by both, and pushed by the first.
  for (const auto& slice : plan.slices) {
    BOOST_TEST(plan.owner[slice.id] < 3u);
    for (const auto& member : members) {
      const bool first = member.role.index % 2 == 0;
      BOOST_TEST(std::ranges::count(member.slices, slice.id)
                 == (first && slice.variable == 0 ? 0 : 1));
      BOOST_TEST(plan.shows(member.role, slice.id)
                 == (first != (slice.variable == 0)));
    }
  }
  const auto table = to_table(plan);
  for (const auto* shown :
       {"group 1          tensor:2, tensor:3\n", "tensor:1, tensor:3  2-3",
        "  2-3            pulls ",
        "at the shards, fixed tree; of slices by direct exchange, fixed "
        "tree\n"})
    BOOST_TEST(table.find(shown) != std::string::npos, table);
  BOOST_TEST(table.find("every member") == std::string::npos, table);
}

BOOST_AUTO_TEST_CASE(a_tensor_member_shows_what_no_member_before_it_has) {
  auto options = mirrored(1);
  options.strategy = Strategy::tensor;
  options.tensor = two_members();
  Plan plan;
  PlanError error;
  BOOST_REQUIRE(make_plan(options, some_variables, plan, error));
  BOOST_TEST((plan.owner_kind == RoleKind::tensor));
  BOOST_TEST(plan.owners == 2u);
  BOOST_TEST(plan.of_kind(RoleKind::worker).empty());
  const auto members = plan.of_kind(RoleKind::tensor);
  BOOST_REQUIRE(members.size() == 2u);
  size_t kept = 0;
  for (const auto& slice : plan.slices) {
    BOOST_TEST(plan.owner[slice.id] == (slice.variable == 0 ? 1u : 0u));
    BOOST_TEST(plan.on_shards(slice.id));
    kept += slice.variable == 0 ? 0 : 1;
  }
  BOOST_TEST(members[0].slices.size() == kept);
  BOOST_TEST(members[1].slices.size() == plan.slices.size());
  BOOST_TEST((members[1].ranks == RankRange{0, options.virtual_ranks}));
  const auto table = to_table(plan);
  BOOST_TEST(plan.shows({RoleKind::tensor, 1}, 0));
  BOOST_TEST(table.find("tensor:1  2-3") != std::string::npos, table);
  BOOST_TEST(table.find("every member") != std::string::npos, table);
  options.devices = {"pjrt:x.so:0"};
  BOOST_TEST(refusal(options).find("--devices cpu:2 or cuda:0")
             != std::string::npos);
}

BOOST_AUTO_TEST_CASE(every_device_of_every_worker_has_a_replica) {
  auto options = mirrored(2);
  options.strategy = Strategy::multi_worker_mirrored;
  options.workers = 2;
  Plan plan;
  PlanError error;
  BOOST_REQUIRE(make_plan(options, some_variables, plan, error));
  auto replicas = plan.of_kind(RoleKind::worker);
  BOOST_REQUIRE(replicas.size() == 4u);
  BOOST_TEST(replicas[1].device == "cpu:1");
  BOOST_TEST(replicas[2].device == "cpu:0");
  BOOST_TEST((replicas[3].ranks == RankRange{3, 4}));
  options.workers = 3;
  BOOST_TEST(refusal(options)
             == "6 replicas need at least 6 virtual ranks: add "
                "--virtual-ranks 6");
}

BOOST_AUTO_TEST_CASE(an_all_reduce_that_would_change_bits_is_refused) {
  auto options = mirrored(2);
  for (std::string name :
       {"ring", "halving_doubling", "hierarchical", "hierarchical_copy"}) {
    options.all_reduce = name;
    BOOST_TEST(refusal(options).find("add --reduction fast")
               != std::string::npos);
  }
  options.all_reduce = "nccl";
  BOOST_TEST(refusal(options).find("a GPU of its own") != std::string::npos);
  options.devices = {"cuda:0", "cuda:0.1"};
  BOOST_TEST(refusal(options).find("a GPU of its own") != std::string::npos);
  options.devices = {"cuda:0"};
  BOOST_TEST(refusal(options).find("a GPU of its own") != std::string::npos);
  options.devices = {"cuda:0", "cuda:1"};
  Plan plan;
  PlanError error;
  BOOST_TEST(make_plan(options, some_variables, plan, error));
  options = mirrored(2);
  options.compresses = true;
  BOOST_TEST(refusal(options).find("--compress changes bits")
             != std::string::npos);
  options.any_order = true;
  BOOST_TEST(refusal(options).find("multi_worker_mirrored")
             != std::string::npos);
}

BOOST_AUTO_TEST_CASE(an_all_reduce_of_local_devices_needs_one_process) {
  auto options = mirrored(2);
  options.strategy = Strategy::multi_worker_mirrored;
  options.all_reduce = "reduction_to_one_device";
  BOOST_TEST(refusal(options).find("devices of one process")
             != std::string::npos);
  options.strategy = Strategy::one_device;
  options.devices = {"cpu:0"};
  options.all_reduce = "ring";
  BOOST_TEST(refusal(options).find("has no effect") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(counts_of_zero_are_refused_with_their_flag) {
  BOOST_TEST(refusal(parameter_server(0, 1))
             == "no worker: add --workers 1 or more");
  BOOST_TEST(refusal(parameter_server(1, 0))
             == "no parameter-server shard: add --ps 1 or more");
  BOOST_TEST(refusal(mirrored(0)) == "no device: add --devices cpu:1");
  auto options = mirrored(1);
  options.virtual_ranks = 0;
  BOOST_TEST(refusal(options)
             == "no virtual rank: add --virtual-ranks 1 or more");
  options = mirrored(1);
  options.global_batch = 0;
  BOOST_TEST(refusal(options)
             == "an empty batch: add --global-batch 1 or more");
}

BOOST_AUTO_TEST_CASE(one_device_refuses_a_second_one) {
  auto options = mirrored(2);
  options.strategy = Strategy::one_device;
  BOOST_TEST(refusal(options)
             == "strategy one_device uses one device, not 2: name one with "
                "--devices, or add --strategy mirrored");
}

BOOST_AUTO_TEST_CASE(tpu_is_a_worker_with_all_devices_of_a_plugin) {
  auto options = mirrored(2);
  options.strategy = Strategy::tpu;
  BOOST_TEST(refusal(options).starts_with(
    "strategy tpu computes on devices of a PJRT plugin"));
  options.devices = {"pjrt:a.so:0", "pjrt:a.so:1"};
  const auto plan = planned(options);
  const auto workers = plan.of_kind(RoleKind::worker);
  BOOST_REQUIRE(workers.size() == 1u);
  BOOST_TEST(workers[0].device == "pjrt:a.so:0-1");
  BOOST_TEST(plan.role({RoleKind::evaluator, 0}).device == "pjrt:a.so:0");
  options.processes = true; // they are the worker's
  BOOST_TEST(planned(options).role({RoleKind::evaluator, 0}).device == "cpu");
  options.processes = false;
  BOOST_TEST(workers[0].ranks.size() == options.virtual_ranks);
  BOOST_TEST(plan.reduction == "on the devices, fixed tree");
  options.any_order = true;
  BOOST_TEST(planned(options).reduction == "on the devices, any order");
  options.all_reduce = "reduction_to_one_device";
  BOOST_TEST(refusal(options).find("has no effect with strategy tpu")
             != std::string::npos);
  options.all_reduce = "auto";
  options.virtual_ranks = 1;
  BOOST_TEST(refusal(options).find("2 devices need at least 2 virtual ranks")
             != std::string::npos);
  options.virtual_ranks = 2;
  options.devices.pop_back();
  const auto one = planned(options);
  BOOST_TEST(one.of_kind(RoleKind::worker).front().device == "pjrt:a.so:0");
  BOOST_TEST(one.reduction == "local, any order");
}

BOOST_AUTO_TEST_CASE(workers_with_a_plugin_drive_all_of_its_devices) {
  auto options = mirrored(4);
  options.strategy = Strategy::multi_worker_mirrored;
  options.workers = 2;
  options.devices = {"pjrt:a.so:0", "pjrt:a.so:1"};
  const auto workers = planned(options).of_kind(RoleKind::worker);
  BOOST_REQUIRE(workers.size() == 2u);
  BOOST_TEST(workers[1].device == "pjrt:a.so:0-1");
  options.virtual_ranks = 3;
  BOOST_TEST(refusal(options).find("need at least 4 virtual ranks")
             != std::string::npos);
}

BOOST_AUTO_TEST_CASE(devices_of_strategy_tpu_are_one_plugins) {
  auto options = mirrored(2);
  options.strategy = Strategy::tpu;
  for (const auto& others :
       {std::vector<std::string>{"pjrt:a.so:0", "pjrt:b.so:0"},
        {"pjrt:a.so:0", "cpu:0"},
        {"pjrt:a.so:1", "pjrt:a.so:0"}}) {
    options.devices = others;
    BOOST_TEST(refusal(options).find("pjrt:/path/libtpu.so:2")
               != std::string::npos);
  }
}

BOOST_AUTO_TEST_CASE(names_of_strategies_read_back) {
  for (auto value : {Strategy::one_device, Strategy::mirrored,
                     Strategy::multi_worker_mirrored, Strategy::central_storage,
                     Strategy::parameter_server, Strategy::pipeline,
                     Strategy::tensor, Strategy::hybrid, Strategy::tpu}) {
    auto read = Strategy::one_device;
    BOOST_TEST(parse(to_string(value), read));
    BOOST_TEST((read == value));
  }
  auto untouched = Strategy::tensor;
  BOOST_TEST(!parse("Mirrored", untouched));
  BOOST_TEST(!parse("", untouched));
  BOOST_TEST((untouched == Strategy::tensor));
}

BOOST_AUTO_TEST_CASE(every_worker_may_keep_what_is_no_table) {
  auto variables = some_variables;
  variables.push_back({"table", {5000, 16}, 4});
  auto options = parameter_server(2, 3);
  options.chain = 2;
  options.dense_reduced = true;
  Plan plan;
  PlanError error;
  BOOST_REQUIRE(make_plan(options, variables, plan, error));
  std::vector<uint32_t> dense;
  for (const auto& slice : plan.slices) {
    BOOST_TEST(plan.on_shards(slice.id) == slice.sparse());
    BOOST_TEST(plan.replicas(slice.id).size() == (slice.sparse() ? 2u : 0u));
    if (!slice.sparse())
      dense.push_back(slice.id);
  }
  for (const auto& worker : plan.of_kind(RoleKind::worker))
    BOOST_TEST((worker.slices == dense));
  // Four parts for three shards: one has two.
  size_t parts = 0;
  for (const auto& shard : plan.of_kind(RoleKind::shard)) {
    BOOST_TEST(!shard.slices.empty());
    parts += shard.slices.size();
  }
  BOOST_TEST(parts == 2 * 4u);
  BOOST_TEST(to_table(plan).find("every worker") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(dense_variables_are_reduced_beside_shards) {
  auto options = mirrored(2);
  options.dense_reduced = true;
  BOOST_TEST(refusal(options).find("add --strategy parameter_server")
             != std::string::npos);
  options = parameter_server(2, 1);
  options.dense_reduced = true;
  for (auto mode : {Synchronisation::async, Synchronisation::sync}) {
    options.synchronisation = mode;
    Plan plan;
    PlanError error;
    BOOST_TEST(make_plan(options, some_variables, plan, error));
  }
  options.any_order = true;
  options.backup_workers = 1;
  BOOST_TEST(refusal(options).find("drop --backup-workers")
             != std::string::npos);
  options.backup_workers = 0;
  options.compresses = true;
  BOOST_TEST(refusal(options).find("--compress") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(sharded_workers_have_the_shards_of_their_numbers) {
  auto options = parameter_server(3, 7);
  options.strategy = Strategy::fully_sharded;
  options.partitioner = MaxSize{1024};
  const auto plan = planned(options);
  check(plan);
  BOOST_TEST(plan.paired);
  BOOST_TEST(plan.owners == 3u);
  BOOST_TEST((plan.owner_kind == RoleKind::shard));
  BOOST_TEST(plan.of_kind(RoleKind::worker).size() == 3u);
  BOOST_TEST(plan.of_kind(RoleKind::shard).size() == 3u);
  for (const auto& slice : plan.slices)
    BOOST_TEST(
      (plan.replicas(slice.id) == std::vector<uint32_t>{plan.owner[slice.id]}));
}

BOOST_AUTO_TEST_CASE(sharded_workers_keep_copies_for_the_one_before) {
  auto options = parameter_server(3, 1);
  options.strategy = Strategy::fully_sharded;
  options.partitioner = MaxSize{1024};
  options.chain = 2;
  const auto plan = planned(options);
  size_t kept = 0;
  for (const auto& shard : plan.of_kind(RoleKind::shard)) {
    kept += shard.slices.size();
    for (auto slice : shard.slices) {
      const auto owner = plan.owner[slice];
      BOOST_TEST(
        (shard.role.index == owner || shard.role.index == (owner + 1) % 3));
      BOOST_TEST(plan.replicas(slice).front() == owner);
    }
  }
  BOOST_TEST(kept == 2 * plan.slices.size());
  options.chain = 4;
  BOOST_TEST(refusal(options).find("--chain 4") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(shares_of_a_model_have_names) {
  for (auto sharding :
       {Sharding::optimizer, Sharding::gradients, Sharding::parameters}) {
    Sharding read = Sharding::optimizer;
    BOOST_TEST(parse(to_string(sharding), read));
    BOOST_TEST((read == sharding));
  }
  Sharding read = Sharding::gradients;
  BOOST_TEST(!parse("weights", read));
  BOOST_TEST((read == Sharding::gradients));
}

BOOST_AUTO_TEST_SUITE_END()
