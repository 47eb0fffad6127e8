#include "actors/stage/scalar_rounds.hpp"
#include "tests/unit/actors/small_job.hpp"

#include <boost/test/unit_test.hpp>

#include <memory>
#include <utility>

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(scalar_rounds_suite)

namespace {

constexpr uint32_t round_samples = 48;

/// Variables of several blocks, in several slices.
JobOptions normed_options(uint32_t stages, OptimizerKind kind) {
  auto options = small_job();
  options.strategy = Strategy::pipeline;
  options.model = "mlp:20-300-64-64-4";
  options.stages = stages;
  options.partitioner = "max_size:16384";
  options.rule.kind = kind;
  options.clip_norm = 0.5;
  return options;
}

std::shared_ptr<const Job> normed_job(uint32_t stages, OptimizerKind kind) {
  return std::make_shared<const Job>(normed_options(stages, kind),
                                     *small_data().train);
}

/// Sums of a slice that no other slice has.
std::vector<double> drawn_sums(const Job& job, const Slice& slice,
                               ScalarRoundKind kind) {
  std::vector<double> sums(sums_of(job, slice, kind));
  for (size_t i = 0; i < sums.size(); ++i)
    sums[i] = 1 + (slice.id * 7 + i) / 3.0;
  return sums;
}

std::vector<double> drawn_sums_of_stage(const Job& job, uint32_t stage,
                                        ScalarRoundKind kind) {
  std::vector<double> out;
  for (auto id : job.plan.role({RoleKind::stage, stage}).slices) {
    const auto sums = drawn_sums(job, job.plan.slices[id], kind);
    out.insert(out.end(), sums.begin(), sums.end());
  }
  return out;
}

/// The scalars of one who holds all slices.
std::vector<float> whole_round(const Job& job, ScalarRoundKind kind) {
  RoundSums all{job, kind};
  for (const auto& slice : job.plan.slices)
    all.put(slice, drawn_sums(job, slice, kind));
  return all.scalars(round_samples);
}

/// A round over all stages, from the last one back and forward again.
std::vector<float> pass_round(const Job& job,
                              std::vector<StageScalars>& stages) {
  const auto round = stages.front().round();
  const auto kind = stages.front().kind();
  TensorView sums;
  for (auto i = static_cast<uint32_t>(stages.size()); i-- > 0;) {
    BOOST_TEST(stages[i].round() == round);
    BOOST_TEST(stages[i].sums_elements(round) == sums.size());
    sums = StageScalars::join(drawn_sums_of_stage(job, i, kind), sums);
  }
  const auto scalars = stages.front().decide(sums, round_samples);
  for (auto& stage : stages) {
    BOOST_TEST(stage.scalars_elements(round) == scalars.size());
    BOOST_TEST(!stage.is_done());
    BOOST_TEST(stage.take(scalars));
  }
  return {scalars.data(), scalars.data() + scalars.size()};
}

std::vector<StageScalars> scalars_of_stages(const Job& job) {
  std::vector<StageScalars> stages;
  for (uint32_t i = 0; i < job.plan.stages.size(); ++i)
    stages.emplace_back(job, i).begin();
  return stages;
}

} // namespace

// PROTOCOL 5
BOOST_AUTO_TEST_CASE(stages_find_the_scalars_of_one_who_holds_all) {
  for (uint32_t count : {1, 2, 3, 4}) {
    const auto job = normed_job(count, OptimizerKind::lamb);
    BOOST_TEST_REQUIRE(job->plan.slices.size() > job->plan.variables.size());
    auto stages = scalars_of_stages(*job);
    BOOST_TEST(stages.front().rounds() == 2u);
    const auto scale = pass_round(*job, stages);
    BOOST_TEST(scale == whole_round(*job, ScalarRoundKind::gradient_norm),
               boost::test_tools::per_element());
    const auto ratios = pass_round(*job, stages);
    const auto expected = whole_round(*job, ScalarRoundKind::trust_ratios);
    BOOST_TEST(ratios == expected, boost::test_tools::per_element());
    for (const auto& stage : stages) {
      BOOST_TEST(stage.is_done());
      BOOST_TEST(stage.scalars().gradient_scale == scale.front());
      BOOST_TEST(stage.scalars().trust_ratios == expected,
                 boost::test_tools::per_element());
    }
  }
}

// Each pipeline of several has its own rounds, with the same scalars.
BOOST_AUTO_TEST_CASE(pipelines_side_by_side_find_the_same_scalars) {
  const auto options = normed_options(2, OptimizerKind::lamb);
  auto meshed = options;
  meshed.strategy = Strategy::hybrid;
  meshed.cut.mesh = {2, 2};
  const Job job{meshed, *small_data().train};
  auto stages = scalars_of_stages(job);
  BOOST_TEST(stages.size() == 2u);
  const auto scale = pass_round(job, stages);
  BOOST_TEST(scale == whole_round(job, ScalarRoundKind::gradient_norm),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_step_that_is_taken_anew_knows_no_scalars) {
  const auto job = normed_job(2, OptimizerKind::adam);
  auto stages = scalars_of_stages(*job);
  pass_round(*job, stages);
  BOOST_TEST_REQUIRE(stages[1].is_done());
  stages[1].begin();
  BOOST_TEST(!stages[1].is_done());
  BOOST_TEST(stages[1].scalars().gradient_scale == 1.0f);
}

BOOST_AUTO_TEST_CASE(scalars_of_another_size_are_not_taken) {
  const auto job = normed_job(2, OptimizerKind::lamb);
  StageScalars stage{*job, 1};
  stage.begin();
  const std::vector<float> two(2, 1.0f);
  BOOST_TEST(!stage.take(TensorView::copy(two)));
  BOOST_TEST(stage.round() == 0u);
  BOOST_TEST(stage.take(TensorView::copy({two.data(), 1})));
  BOOST_TEST((stage.kind() == ScalarRoundKind::trust_ratios));
  BOOST_TEST(!stage.take(TensorView::copy({two.data(), 1})));
  BOOST_TEST(!stage.is_done());
}

BOOST_AUTO_TEST_CASE(a_step_without_norms_has_no_rounds) {
  auto options = small_job();
  options.strategy = Strategy::pipeline;
  options.model = "mlp:20-64-64-64-4";
  options.stages = 2;
  const Job job{options, *small_data().train};
  StageScalars stage{job, 0};
  stage.begin();
  BOOST_TEST(stage.is_done());
}

BOOST_AUTO_TEST_SUITE_END()
