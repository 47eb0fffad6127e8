#include "actors/job/stage_layers.hpp"
#include "kernels/base/error.hpp"
#include "kernels/graph/models.hpp"
#include "tests/unit/actors/small_job.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(stage_layers_suite)

namespace {

JobOptions staged_job(uint32_t stages, const std::string& split_at = {}) {
  auto options = small_job();
  options.strategy = Strategy::pipeline;
  options.model = "mlp:20-64-64-64-4";
  options.stages = stages;
  options.cut.split_at = split_at;
  return options;
}

std::string staged_mistake(const JobOptions& options) {
  try {
    stage_layers(options, make_graph(options.model), 16);
  } catch (const UsageError& mistake) {
    return mistake.what();
  }
  return "none";
}

/// The most that a stage takes of a sample.
uint64_t slowest_stage(const std::vector<StageLayers>& stages) {
  uint64_t most = 0;
  for (const auto& stage : stages)
    most = std::max(most, stage.flops);
  return most;
}

} // namespace

BOOST_AUTO_TEST_CASE(stages_have_all_layers_and_all_variables_once) {
  for (std::string model : {"mlp:20-64-64-64-4", "transformer:L3-H2-D16-T8"}) {
    const auto graph = make_graph(model);
    for (uint32_t count = 1; count <= 4; ++count) {
      auto options = staged_job(count);
      options.model = model;
      const auto stages = stage_layers(options, graph, 16);
      BOOST_REQUIRE(stages.size() == count);
      uint32_t next = 0;
      std::vector<int> kept(graph.parameters.size(), 0);
      for (const auto& stage : stages) {
        BOOST_TEST(stage.begin == next);
        BOOST_TEST(stage.end > stage.begin);
        next = stage.end;
        for (auto variable : stage.variables)
          ++kept[variable];
      }
      BOOST_TEST(next == graph.ops.size());
      BOOST_TEST(kept == std::vector<int>(kept.size(), 1),
                 boost::test_tools::per_element());
    }
  }
}

BOOST_AUTO_TEST_CASE(cuts_leave_the_slowest_stage_as_fast_as_can_be) {
  const auto options = staged_job(2);
  const auto graph = make_graph(options.model);
  const auto chosen = slowest_stage(stage_layers(options, graph, 16));
  for (size_t op = 1; op < graph.ops.size(); ++op) {
    const auto named = staged_job(2, graph.ops[op].name);
    BOOST_TEST(chosen <= slowest_stage(stage_layers(named, graph, 16)));
  }
}

BOOST_AUTO_TEST_CASE(a_schedule_says_how_many_micro_batches_a_stage_keeps) {
  auto options = staged_job(3);
  const auto graph = make_graph(options.model);
  const auto kept = [&] {
    std::vector<uint32_t> out;
    for (const auto& stage : stage_layers(options, graph, 16))
      out.push_back(stage.in_flight);
    return out;
  };
  BOOST_TEST(kept() == (std::vector<uint32_t>{3, 2, 1}),
             boost::test_tools::per_element());
  options.schedule.order = "gpipe";
  BOOST_TEST(kept() == (std::vector<uint32_t>{4, 4, 4}),
             boost::test_tools::per_element());
  options.schedule.order = "zero_bubble";
  BOOST_TEST(kept() == (std::vector<uint32_t>{3, 3, 3}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(chunks_go_round_the_stages) {
  auto options = staged_job(2);
  options.schedule.order = "interleaved";
  const auto graph = make_graph(options.model);
  const auto parts = stage_layers(options, graph, 16);
  BOOST_REQUIRE(parts.size() == 4u);
  const Job job{options, 64};
  BOOST_TEST(job.plan.owners == 2u);
  BOOST_TEST(job.plan.of_kind(RoleKind::stage).size() == 2u);
  for (const auto& slice : job.plan.slices)
    for (uint32_t i = 0; i < parts.size(); ++i)
      if (std::ranges::count(parts[i].variables, slice.variable) > 0)
        BOOST_TEST(job.plan.owner[slice.id] == i % 2);
  BOOST_TEST(to_table(job.plan).find("stage:1, chunk 1") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(chunks_train_to_the_weights_of_one_device) {
  // The last step of an epoch has 4 samples, and as many micro-batches.
  auto alone = small_job();
  alone.model = "mlp:20-24-23-22-21-20-19-18-4";
  alone.global_batch = 62;
  alone.virtual_ranks = 6;
  alone.clip_norm = 0.5;
  const auto whole = weights(alone);
  for (uint32_t stages : {2, 3})
    for (uint32_t chunks : {1, 2, 3})
      for (std::string recompute : {"none", "full"}) {
        auto options = alone;
        options.strategy = Strategy::pipeline;
        options.stages = stages;
        options.schedule = {"interleaved", recompute, chunks};
        BOOST_TEST(weights(options) == whole,
                   stages << " stages of " << chunks << ' ' << recompute);
      }
}

BOOST_AUTO_TEST_CASE(cuts_that_cannot_be_are_refused_with_their_flag) {
  const auto has = [](const JobOptions& options, const char* what) {
    const auto line = staged_mistake(options);
    BOOST_TEST(line.find(what) != std::string::npos, line);
  };
  has(staged_job(9), "has 5 operators");
  has(staged_job(2, "nobody"), "no operator nobody");
  has(staged_job(2, "dense_0"), "first operator");
  has(staged_job(3, "dense_2,dense_1"), "dense_1 is not after");
  has(staged_job(3, "dense_1"), "makes 2 stages");
  auto chunks = staged_job(2, "dense_1");
  chunks.schedule.order = "interleaved";
  has(chunks, "makes 2 chunks of --stages 2 --chunks 2");
  chunks.cut.split_at.clear();
  chunks.schedule.chunks = 3;
  has(chunks, "--stages 2 --chunks 3: --model mlp:20-64-64-64-4 has 5");
  chunks.schedule.chunks = 2;
  chunks.virtual_ranks = 5;
  has(chunks, "use --virtual-ranks 6");
  chunks.schedule.order = "gpipe";
  has(chunks, "use --schedule interleaved");
  auto options = staged_job(2);
  options.model = "sleep:1ms";
  has(options, "no layers to cut");
}

BOOST_AUTO_TEST_CASE(layers_that_are_computed_again_are_named) {
  const auto line = [](const char* names) {
    auto options = staged_job(2);
    options.schedule.recompute = names;
    return staged_mistake(options);
  };
  BOOST_TEST(line("dense_9").find("--recompute dense_9: --model "
                                  "mlp:20-64-64-64-4 has no operator or layer "
                                  "'dense_9'")
             != std::string::npos);
  BOOST_TEST(line("dense_1,").find("layer ''") == std::string::npos);
  BOOST_TEST(line("dense_1,,dense_2").find("layer ''") != std::string::npos);
  BOOST_TEST(line("dense_1,dense_1").find("dense_1 is part of a layer before")
             != std::string::npos);
  auto options = staged_job(2);
  options.model = "transformer:L2-H2-D16-T8";
  options.sample.vocabulary = 19;
  options.sample.label = LabelKind::tokens;
  options.schedule.recompute = "block_1,block_0.attention";
  const auto graph = make_graph(options.model, options.sample);
  const auto layers =
    stage_options(options, graph, 0, 4, Precision::float32).layers;
  BOOST_REQUIRE(layers.size() == graph.ops.size());
  for (size_t op = 0; op < layers.size(); ++op) {
    const auto& name = graph.ops[op].name;
    BOOST_TEST(layers[op]
                 == (name.starts_with("block_1.")  ? 1u
                     : name == "block_0.attention" ? 2u
                                                   : 0u),
               name);
  }
}

BOOST_AUTO_TEST_CASE(what_is_computed_again_counts_as_flops) {
  const auto graph = make_graph("mlp:20-64-64-64-4");
  auto options = staged_job(2, "dense_2");
  const auto plain = stage_layers(options, graph, 16);
  const auto more = [&](const char* recompute, size_t stage) {
    options.schedule.recompute = recompute;
    return stage_layers(options, graph, 16)[stage].flops - plain[stage].flops;
  };
  // The forward pass: of the first layer a half of all, as nothing goes back.
  BOOST_TEST(more("full", 0) == 2u * (20 * 64 + 64 * 64));
  BOOST_TEST(more("full", 1) == plain[1].flops / 3);
  BOOST_TEST(more("dense_2", 0) == 0u);
  BOOST_TEST(more("dense_2", 1) == 2u * 64 * 64);
}

BOOST_AUTO_TEST_CASE(stages_train_to_the_weights_of_one_device) {
  auto alone = small_job();
  alone.model = "mlp:20-64-64-64-4";
  const auto whole = weights(alone);
  for (uint32_t stages : {1, 2, 3, 5})
    for (std::string schedule : {"gpipe", "1f1b", "zero_bubble"}) {
      auto options = staged_job(stages);
      options.schedule.order = schedule;
      for (std::string recompute : {"none", "full", "dense_1,dense_2"}) {
        options.schedule.recompute = recompute;
        BOOST_TEST(weights(options) == whole,
                   stages << ' ' << schedule << ' ' << recompute);
      }
    }
}

BOOST_AUTO_TEST_CASE(layers_that_wait_are_cut_by_how_long) {
  auto options = staged_job(2);
  options.model = "sleep:1ms+1ms+1ms+3ms-5";
  const auto stages = stage_layers(options, make_graph(options.model), 16);
  BOOST_REQUIRE(stages.size() == 2u);
  BOOST_TEST(stages[0].last == "wait_2");
  BOOST_TEST(stages[1].first == "wait_3");
}

BOOST_AUTO_TEST_CASE(layers_that_wait_have_the_weights_of_one_device) {
  auto alone = small_job();
  alone.model = "sleep:0ms+1ms+0ms-5";
  const auto whole = weights(alone);
  for (std::string schedule : {"gpipe", "1f1b", "zero_bubble"}) {
    auto options = staged_job(3);
    options.model = alone.model;
    options.schedule.order = schedule;
    BOOST_TEST(weights(options) == whole, schedule);
  }
}

BOOST_AUTO_TEST_CASE(stages_clip_and_scale_as_one_device_does) {
  for (const auto kind : {OptimizerKind::adam, OptimizerKind::lamb}) {
    auto alone = small_job();
    alone.model = "mlp:20-64-64-64-4";
    alone.rule.kind = kind;
    const auto unclipped = weights(alone);
    alone.clip_norm = 0.05;
    const auto whole = weights(alone);
    BOOST_TEST(whole != unclipped);
    for (uint32_t stages : {1, 2, 4}) {
      auto options = staged_job(stages);
      options.schedule.order = stages == 2 ? "zero_bubble" : "auto";
      options.rule.kind = kind;
      options.clip_norm = 0.05;
      BOOST_TEST(weights(options) == whole, stages);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
