#include "kernels/cpu/isa.hpp"
#include "kernels/cuda/replica.hpp"
#include "kernels/engine/device.hpp"
#include "tests/gpu/problem.hpp"

#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <thread>

using namespace troupe;
using namespace troupe::test;

namespace {

std::unique_ptr<Replica> replica_on(const Problem& problem, DeviceId device,
                                    Precision precision,
                                    kernels::CudaOptions options = {}) {
  return kernels::make_cuda_replica(problem.graph, device, problem.batch.rows,
                                    precision, options);
}

/// What is left out is said, whatever the log level.
struct SaysWhatIsMissing {
  SaysWhatIsMissing() {
    if (cuda_device_count() == 0)
      std::puts("test_gpu: no usable CUDA device: every test is skipped");
  }
};
BOOST_GLOBAL_FIXTURE(SaysWhatIsMissing);

} // namespace

BOOST_AUTO_TEST_SUITE(gpu_replica_test,
                      *boost::unit_test::precondition(has_gpu))

BOOST_AUTO_TEST_CASE(a_replayed_pass_has_the_bits_of_one_that_is_not_recorded) {
  for (const auto& model : models())
    for (auto precision : {Precision::float32, Precision::bfloat16})
      BOOST_TEST_CONTEXT(model << " precision " << int(precision)) {
        const Problem problem(model, on_stand_in() ? 3 : 5);
        auto eager = replica_on(problem, first_gpu, precision, {false});
        auto replayed = replica_on(problem, first_gpu, precision);
        const auto want = problem.gradient(*eager);
        for (auto value : want.gradient)
          BOOST_REQUIRE(std::isfinite(value));
        if (!on_stand_in()) // whose passes are never in the same order
          BOOST_CHECK(problem.gradient(*eager) == want);
        // Run as it is, recorded, replayed.
        for (int call = 0; call < 3; ++call)
          BOOST_CHECK_MESSAGE(problem.gradient(*replayed) == want,
                              "other bits in call " << call);
      }
}

BOOST_AUTO_TEST_CASE(gradients_are_those_of_the_cpu) {
  for (const auto& model : models())
    BOOST_TEST_CONTEXT(model) {
      const Problem problem(model, 7);
      auto cpu = make_replica(problem.graph, {}, 7);
      auto gpu = make_replica(problem.graph, first_gpu, 7);
      const auto want = problem.gradient(*cpu);
      const auto have = problem.gradient(*gpu);
      BOOST_TEST(distance(have.gradient, want.gradient) < 1e-3);
      BOOST_TEST(have.stats.loss_sum == want.stats.loss_sum,
                 boost::test_tools::tolerance(1e-5));
    }
}

/// How far bfloat16 is from float32 on a device.
double rounding_of(const Problem& problem, DeviceId device) {
  auto exact = make_replica(problem.graph, device, problem.batch.rows);
  auto rounded = make_replica(problem.graph, device, problem.batch.rows,
                              Precision::bfloat16);
  const auto want = problem.gradient(*exact);
  const auto have = problem.gradient(*rounded);
  BOOST_TEST(have.stats.loss_sum == want.stats.loss_sum,
             boost::test_tools::tolerance(0.02));
  return distance(have.gradient, want.gradient);
}

BOOST_AUTO_TEST_CASE(bfloat16_is_no_farther_from_float32_than_on_a_cpu) {
  for (const auto& model : models())
    BOOST_TEST_CONTEXT(model) {
      const Problem problem(model, 8);
      const auto off = rounding_of(problem, first_gpu);
      if (kernels::has_bfloat16())
        BOOST_TEST(off < 1.5 * rounding_of(problem, {}) + 1e-3);
      else
        BOOST_TEST_MESSAGE("this processor has no bfloat16 to compare with");
      // It was used at all; tables are looked up and nothing is multiplied.
      if (model != "logreg")
        BOOST_TEST(off > 0);
    }
}

BOOST_AUTO_TEST_CASE(fewer_rows_give_the_bits_they_have_alone) {
  Problem problem(transformer(), 6);
  auto roomy = make_replica(problem.graph, first_gpu, 6);
  problem.gradient(*roomy); // another shape before
  problem.batch.rows = 3;
  auto exact = make_replica(problem.graph, first_gpu, 3);
  BOOST_CHECK(problem.gradient(*roomy) == problem.gradient(*exact));
}

BOOST_AUTO_TEST_CASE(a_narrower_model_beside_leaves_a_wide_one_its_memory) {
  const Problem wide("mlp:784-8-16384", 3);
  const Problem narrow("mlp:784-8-2048", 3);
  auto first = make_replica(wide.graph, first_gpu, 3);
  const auto want = wide.gradient(*first);
  auto second = make_replica(narrow.graph, first_gpu, 3);
  narrow.gradient(*second);
  BOOST_CHECK(wide.gradient(*first) == want);
}

BOOST_AUTO_TEST_CASE(virtual_devices_compute_side_by_side) {
  const Problem problem(transformer(), 6);
  auto alone = make_replica(problem.graph, first_gpu, 6);
  const auto want = problem.gradient(*alone);
  std::vector<Problem::Result> results(on_stand_in() ? 2 : 4);
  std::vector<std::thread> threads;
  for (uint32_t slot = 0; slot < results.size(); ++slot)
    threads.emplace_back([&, slot] {
      auto replica = make_replica(problem.graph,
                                  {DeviceId::Kind::cuda, 0, slot}, 6);
      for (int call = 0; call < (on_stand_in() ? 2 : 5); ++call)
        results[slot] = problem.gradient(*replica);
    });
  for (auto& thread : threads)
    thread.join();
  for (const auto& result : results)
    BOOST_CHECK(result == want);
}

BOOST_AUTO_TEST_CASE(predictions_are_those_of_the_cpu) {
  for (const auto& model : models())
    BOOST_TEST_CONTEXT(model) {
      const Problem problem(model, 9);
      const auto places = 9 * problem.graph.labels();
      std::vector<int32_t> want(places, -1);
      std::vector<int32_t> have(places, -2);
      auto cpu = make_replica(problem.graph, {}, 9);
      auto gpu = make_replica(problem.graph, first_gpu, 9);
      std::vector<float> wanted(9 * problem.graph.outputs());
      std::vector<float> outputs(wanted.size(), -1e9f);
      cpu->evaluate(problem.parameters.data(), problem.batch,
                    {want.data(), wanted.data()});
      // Run, recorded and replayed.
      for (int call = 0; call < 3; ++call)
        gpu->evaluate(problem.parameters.data(), problem.batch,
                      {have.data(), outputs.data()});
      for (size_t i = 0; i < wanted.size(); ++i)
        BOOST_TEST(std::fabs(outputs[i] - wanted[i])
                   <= 1e-3f * (1 + std::fabs(wanted[i])));
      size_t other = 0;
      for (size_t i = 0; i < places; ++i)
        other += want[i] != have[i];
      // Logits may be equal but for rounding.
      BOOST_TEST(other <= places / 100);
    }
}

BOOST_AUTO_TEST_CASE(too_little_memory_is_said_in_megabytes) {
  auto device = kernels::make_device(first_gpu, Precision::float32);
  BOOST_CHECK_EXCEPTION(
    device->allocate(size_t{1} << 40), std::runtime_error,
    [](const std::runtime_error& error) {
      const std::string text = error.what();
      return text.starts_with("cuda:0: ")
             && text.find("4194304 MiB were asked for") != std::string::npos
             && text.find("MiB are free") != std::string::npos;
    });
  // The device is well afterwards.
  auto* memory = device->allocate(16);
  const std::vector<float> values(16, 1.5f);
  std::vector<float> back(16);
  device->upload(values.data(), memory, 64);
  device->download(memory, back.data(), 64);
  BOOST_CHECK(values == back);
}

BOOST_AUTO_TEST_SUITE_END()
