#include "actors/job/memory_need.hpp"
#include "actors/job/role_parts.hpp"
#include "actors/job/tensor_layers.hpp"
#include "kernels/base/error.hpp"
#include "kernels/engine/stage_replica.hpp"
#include "kernels/graph/models.hpp"
#include "kernels/graph/virtual_slices.hpp"
#include "tests/unit/actors/small_job.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(tensor_layers_suite)

namespace {

JobOptions tensor_job(uint32_t members, uint32_t slices) {
  auto options = small_job();
  options.model = "mlp:20-32-24-16-4";
  options.strategy = Strategy::tensor;
  options.cut.tensor = members;
  options.cut.virtual_slices = slices;
  return options;
}

/// Stages of tensor members, side by side.
JobOptions meshed_job(const Mesh& mesh) {
  auto options = tensor_job(1, 4);
  options.strategy = Strategy::hybrid;
  options.cut.mesh = mesh;
  return options;
}

JobOptions alone(JobOptions options) {
  options.strategy = Strategy::one_device;
  return options;
}

std::string tensor_mistake(const JobOptions& options) {
  try {
    const Job job{options, 64};
  } catch (const UsageError& mistake) {
    return mistake.what();
  }
  return "none";
}

} // namespace

BOOST_AUTO_TEST_CASE(a_plan_and_a_members_graph_say_the_same) {
  for (std::string model :
       {"mlp:20-32-24-16-8", "transformer:L2-H8-D16-T8-P0.1"})
    for (uint32_t slices = 2; slices <= 8; ++slices) {
      const auto graph = cut_into_slices(make_graph(model), slices);
      const auto ops = tensor_ops(graph);
      for (uint32_t members = 1; members <= slices; ++members) {
        if (mistake_of_tensor(members, slices))
          continue;
        for (const auto& share : tensor_shares(ops, members, slices)) {
          const auto part = tensor_part_of(graph, share);
          const auto duties = tensor_duties(ops, share.slices, slices);
          BOOST_TEST(part.parameters == share.variables,
                     boost::test_tools::per_element());
          BOOST_TEST(part.graph.ops.size()
                     == ops.size()
                          - std::ranges::count(duties, TensorDuty::skip));
          const auto forward = static_cast<uint32_t>(
            std::ranges::count(part.sums, true, &TensorSum::forward));
          BOOST_TEST(forward == share.forward_sums);
          BOOST_TEST(part.sums.size() - forward == share.backward_sums);
          uint64_t bytes = 0;
          for (const auto& sum : part.sums)
            bytes += graph.values[sum.value].size() * sizeof(float);
          BOOST_TEST(bytes == share.bytes);
          uint64_t flops = 0;
          for (size_t op = 0; op < part.graph.ops.size(); ++op)
            flops += part.graph.flops_of(op);
          BOOST_TEST(flops == share.flops);
        }
      }
    }
}

BOOST_AUTO_TEST_CASE(members_share_the_flops_of_what_is_cut) {
  auto options = tensor_job(1, 4);
  options.model = "transformer:L2-H4-D64-T16";
  const Job whole{options, 64};
  options.cut.tensor = 4;
  const Job job{options, 64};
  BOOST_REQUIRE(job.plan.tensor.size() == 4u);
  BOOST_TEST(job.plan.tensor[0].flops < whole.plan.tensor[0].flops / 2);
  for (const auto& share : job.plan.tensor)
    BOOST_TEST(share.flops == job.plan.tensor[0].flops);
  const auto needs = memory_needs(job);
  BOOST_REQUIRE(needs.size() == 4u);
  const auto needs_alone = memory_needs(whole);
  BOOST_TEST(needs[1].bytes() < needs_alone[0].bytes() / 2);
}

BOOST_AUTO_TEST_CASE(a_member_needs_the_working_memory_that_it_allocates) {
  auto options = tensor_job(2, 4);
  options.model = "transformer:L2-H4-D64-T16-P0.1";
  const Job job{options, 64};
  const auto needs = memory_needs(job);
  for (uint32_t member = 0; member < 2; ++member) {
    const RoleParts parts{job, {RoleKind::tensor, member}};
    const auto replica = make_stage_replica(
      parts.graph(), parts.chunks()[0].part, {}, parts.options(0));
    BOOST_TEST(needs[member].step == replica->memory_bytes());
  }
}

// A stage may have no layer in slices, as the last of four; each member shows
// some of what it keeps.
BOOST_AUTO_TEST_CASE(members_of_stages_have_all_of_the_model_between_them) {
  for (const auto& mesh : {Mesh{2, 2, 2}, Mesh{1, 4, 2}, Mesh{1, 2, 4}}) {
    auto options = meshed_job(mesh);
    options.model = "mlp:20-32-24-16-16-8-8-4";
    const Job job{options, 64};
    BOOST_TEST((job.plan.mesh() == mesh));
    const auto members = job.plan.of_kind(RoleKind::tensor);
    BOOST_REQUIRE(members.size() == mesh.members());
    std::vector<uint32_t> shown(job.plan.slices.size(), 0);
    std::vector<uint32_t> kept(job.plan.slices.size(), 0);
    uint64_t ops = 0;
    for (const auto& member : members) {
      const RoleParts parts{job, member.role};
      BOOST_REQUIRE(parts.chunks().size() == 1u);
      ops += parts.chunks()[0].part.ops.end - parts.chunks()[0].part.ops.begin;
      BOOST_TEST(parts.kept(0) == member.slices,
                 boost::test_tools::per_element());
      BOOST_TEST(!job.plan.share(member.role).shows.empty());
      for (auto slice : member.slices) {
        ++kept[slice];
        shown[slice] +=
          job.plan.owner[slice] == mesh.place_of(member.role.index) ? 1 : 0;
      }
    }
    for (auto count : shown)
      BOOST_TEST(count == mesh.data);
    for (auto count : kept)
      BOOST_TEST((count == mesh.data || count == mesh.data * mesh.tensor));
    BOOST_TEST(ops >= mesh.data * job.graph.ops.size() / 2);
    BOOST_TEST(memory_needs(job).size() == mesh.members());
  }
}

BOOST_AUTO_TEST_CASE(stages_of_members_train_to_the_weights_of_one_device) {
  auto options = meshed_job({2, 2, 2});
  options.model = "mlp:20-32-24-16-16-8-8-4";
  const auto whole = weights(alone(options));
  for (std::string schedule : {"auto", "gpipe", "zero_bubble"})
    for (std::string recompute : {"none", "full", "dense_0,dense_3,dense_4"})
      for (const auto& mesh : {Mesh{1, 2, 2}, Mesh{2, 2, 2}, Mesh{1, 4, 2},
                               Mesh{3, 2, 4}, Mesh{2, 2, 1}}) {
        options.cut.mesh = mesh;
        options.schedule.order = schedule;
        options.schedule.recompute = recompute;
        BOOST_TEST(weights(options) == whole,
                   to_string(mesh) << ' ' << schedule << ' ' << recompute);
      }
  options = meshed_job({2, 2, 2});
  options.model = "mlp:20-32-24-16-16-16-16-8-4";
  options.schedule.order = "interleaved";
  options.rule.kind = OptimizerKind::lamb;
  options.clip_norm = 0.05;
  options.global_batch = 62; // the last step of an epoch has 4 samples
  options.virtual_ranks = 6;
  BOOST_TEST(weights(options) == weights(alone(options)));
}

BOOST_AUTO_TEST_CASE(stages_of_members_are_cut_where_all_have_what_crosses) {
  const auto line = [](const char* model, const Mesh& mesh,
                       const char* split_at) {
    auto options = meshed_job(mesh);
    options.model = model;
    options.cut.split_at = split_at;
    return tensor_mistake(options);
  };
  const auto* deep = "mlp:20-32-24-16-16-8-4";
  BOOST_TEST(line(deep, {1, 2, 2}, "dense_2") == "none");
  BOOST_TEST(line(deep, {1, 2, 2}, "dense_1")
               .find("dense_1 is within layers that tensor members share")
             != std::string::npos);
  BOOST_TEST(line(deep, {1, 2, 4}, "loss").find("fewer variables than members")
             != std::string::npos);
  BOOST_TEST(line("mlp:20-32-4", {1, 2, 2}, "").find("cannot be cut so")
             != std::string::npos);
  BOOST_TEST(line(deep, {1, 2, 3}, "").find("use --virtual-slices 6")
             != std::string::npos);
}

BOOST_AUTO_TEST_CASE(members_that_fit_a_limit_are_named) {
  auto options = tensor_job(1, 4);
  options.model = "mlp:20-1024-1024-4";
  const auto one = memory_needs(Job{options, 500}).front().bytes();
  options.cut.device_memory = one - 1;
  const auto line = device_misfit(Job{options, 500});
  BOOST_TEST(line.ends_with("or --tensor 2 --virtual-slices 4"), line);
  options.cut.tensor = 2;
  BOOST_TEST(device_misfit(Job{options, 500}) == "");
}

BOOST_AUTO_TEST_CASE(members_train_to_the_weights_of_one_device) {
  for (auto [members, slices] :
       {std::pair{1u, 1u}, std::pair{1u, 4u}, std::pair{2u, 4u},
        std::pair{4u, 4u}, std::pair{2u, 2u}, std::pair{3u, 6u},
        std::pair{2u, 8u}}) {
    const auto options = tensor_job(members, slices);
    BOOST_TEST(weights(options) == weights(alone(options)),
               members << " of " << slices);
  }
}

BOOST_AUTO_TEST_CASE(members_clip_and_scale_as_one_device_does) {
  for (const auto kind : {OptimizerKind::adam, OptimizerKind::lamb}) {
    auto options = tensor_job(2, 4);
    options.rule.kind = kind;
    const auto unclipped = weights(alone(options));
    options.clip_norm = 0.05;
    const auto whole = weights(alone(options));
    BOOST_TEST(whole != unclipped);
    for (uint32_t members : {1, 2, 4}) {
      options.cut.tensor = members;
      BOOST_TEST(weights(options) == whole, members);
    }
  }
}

BOOST_AUTO_TEST_CASE(steps_with_fewer_samples_than_ranks_are_taken) {
  auto options = tensor_job(2, 4);
  options.global_batch = 62; // the last step of an epoch has 4 samples
  options.virtual_ranks = 6;
  BOOST_TEST(weights(options) == weights(alone(options)));
}

BOOST_AUTO_TEST_CASE(members_that_cannot_be_are_refused_with_their_flag) {
  const auto has = [](const JobOptions& options, const char* what) {
    const auto line = tensor_mistake(options);
    BOOST_TEST(line.find(what) != std::string::npos, line);
  };
  has(tensor_job(3, 4), "--tensor 3 --virtual-slices 4");
  has(tensor_job(2, 1), "use --virtual-slices 2");
  has(tensor_job(0, 4), "add --tensor 1");
  auto options = tensor_job(2, 4);
  options.reduction = "fast";
  has(options, "--reduction fast has no effect");
  options = tensor_job(2, 4);
  options.model = "logreg";
  has(options, "no two dense layers");
  options = tensor_job(1, 1);
  options.model = "sleep:1ms";
  has(options, "waits");
  options = tensor_job(2, 4);
  options.devices = {"pjrt:libtpu.so:0"};
  has(options, "--devices cpu:2 or cuda:0");
}

BOOST_AUTO_TEST_SUITE_END()
