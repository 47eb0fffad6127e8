#include "actors/compute/push_packing.hpp"
#include "tests/unit/actors/small_job.hpp"

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <future>

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(push_packing)

namespace {

Job job_with(const std::string& compress) {
  auto options = small_job();
  options.strategy = Strategy::parameter_server;
  options.workers = 2;
  options.shards = 2;
  options.compress = compress;
  options.reduction = "fast";
  options.sample = small_data().train->shape;
  return Job{options, 500};
}

StepGradient gradient_of(const Job& job, float value) {
  auto sum = std::make_shared<SumBuffer>(job.layout.total, nullptr);
  for (size_t i = 0; i < sum->size(); ++i)
    sum->data()[i] = value * static_cast<float>(1 + i % 7);
  StepGradient gradient;
  gradient.nodes.push_back({{0, 2}, sum, nullptr});
  gradient.nodes.push_back({{2, 3}, nullptr, nullptr}); // the identity
  return gradient;
}

} // namespace

BOOST_AUTO_TEST_CASE(nothing_is_packed_without_the_flag) {
  const auto job = job_with("none");
  PushPacking packing{job};
  Executor executor{"test", 2};
  auto gradient = gradient_of(job, 1);
  packing.pack(gradient, executor);
  BOOST_TEST(!gradient.nodes.front().packed);
  for (const auto& slice : job.plan.slices)
    BOOST_TEST(packing.size(slice) == slice.count);
}

BOOST_AUTO_TEST_CASE(every_format_is_smaller_and_comes_back_as_values) {
  for (const char* kind : {"fp16", "bf16", "int8", "onebit", "topk:0.1"}) {
    const auto job = job_with(kind);
    PushPacking worker{job};
    const PushPacking shard{job};
    std::vector<double> sent(job.layout.total);
    constexpr int rounds = 200;
    for (int round = 0; round < rounds; ++round) {
      auto gradient = gradient_of(job, 0.125f);
      Executor executor{"test", 2};
      std::promise<void> packed;
      executor.submit([&] {
        worker.pack(gradient, executor);
        packed.set_value();
      });
      packed.get_future().wait();
      BOOST_TEST(!gradient.nodes.back().packed);
      for (const auto& slice : job.plan.slices) {
        const auto& bytes = (*gradient.nodes.front().packed)[slice.id];
        BOOST_TEST(bytes.size() == shard.size(slice));
        BOOST_TEST((slice.count < 16 || bytes.size() < slice.count));
        const auto values = shard.unpack(slice, bytes);
        BOOST_TEST_REQUIRE(values.size() == slice.count);
        for (size_t i = 0; i < slice.count; ++i)
          sent[job.flat_offset(slice) + i] += values.data()[i];
      }
    }
    // What one message leaves out goes with a later one.
    for (const auto& slice : job.plan.slices)
      for (size_t i = 0; i < slice.count; ++i) {
        const auto at = job.flat_offset(slice) + i;
        const auto whole = rounds * 0.125 * static_cast<double>(1 + at % 7);
        BOOST_TEST(std::abs(sent[at] - whole) < whole / 2);
      }
  }
}

BOOST_AUTO_TEST_CASE(jobs_learn_from_packed_pushes_of_every_kind) {
  for (const bool async : {false, true})
    for (const char* kind : {"none", "fp16", "int8", "topk:0.25"}) {
      auto options = small_job();
      options.strategy = Strategy::parameter_server;
      options.workers = 2;
      options.shards = 2;
      options.chain = 2;
      options.compress = kind;
      options.reduction = "fast";
      options.epochs = async ? 80 : 40; // in any order: more of them
      options.learning_rate = 1e-2;
      if (async)
        options.synchronisation = Synchronisation::async;
      const auto summary = run(options);
      BOOST_TEST(summary["eval"]["accuracy"].get<double>()
                   > (async ? learnt_in_any_order : 0.8),
                 kind << " " << async << ": " << summary["eval"]["accuracy"]);
    }
}

BOOST_AUTO_TEST_SUITE_END()
