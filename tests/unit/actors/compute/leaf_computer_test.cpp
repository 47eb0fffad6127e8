#include "actors/compute/leaf_computer.hpp"
#include "actors/compute/rank_shares.hpp"
#include "kernels/data/row_supply.hpp"
#include "kernels/engine/parameter_gate.hpp"
#include "kernels/records/decode_time.hpp"
#include "tests/unit/actors/small_job.hpp"

#include <boost/test/unit_test.hpp>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <future>
#include <limits>
#include <stdexcept>
#include <thread>

using namespace troupe;
using namespace troupe::test;

namespace leaf_computer {
namespace {

/// Runs work on an executor's lead thread and waits for it.
template <class Work>
void on(Executor& executor, Work work) {
  std::promise<void> done;
  executor.submit([&] {
    work();
    done.set_value();
  });
  done.get_future().wait();
}

/// A job whose last step has three samples for eight ranks.
std::shared_ptr<const Job> make_job(const std::string& model = {}) {
  auto options = small_job();
  if (!model.empty())
    options.model = model;
  options.virtual_ranks = 8;
  options.global_batch = 71; // 500 = 7 * 71 + 3
  return std::make_shared<const Job>(options, *small_data().train);
}

struct Bench {
  std::shared_ptr<const Job> job;
  Buffer parameters;

  explicit Bench(const std::string& model = {})
    : job(make_job(model)), parameters(job->layout.total) {
    parameters.fill(0);
    for (uint32_t i = 0; i < job->graph.parameters.size(); ++i)
      initialize(job->graph, 1, i, 0,
                 parameters.data() + job->layout.offsets[i],
                 job->graph.parameters[i].size());
  }
};

/// Others, who have no samples but something to say once all is computed.
class SayingPeers final : public RankPeers {
public:
  explicit SayingPeers(std::vector<bool> says) : says_(std::move(says)) {}
  void gather(RankShares&) override {}
  bool any(bool own) override { return says_.at(asked++) || own; }
  size_t asked = 0;

private:
  std::vector<bool> says_;
};

/// Others, whose group has ended.
struct GonePeers final : RankPeers {
  void gather(RankShares&) override { throw PassAbandoned{}; }
  bool any(bool) override { throw PassAbandoned{}; }
};

struct NormBench : Bench {
  NormBench()
    : Bench(R"({"sample": {"features": [20], "classes": 4},
        "operators": [{"kind": "batch_norm", "cross_replica": true},
          {"kind": "dense", "units": "classes"},
          {"kind": "softmax_cross_entropy"}]})") {}

  StepGradient compute(LeafComputer& computer, RankPeers& peers, Buffer& sum) {
    NodeTargets targets{{{0, 8}}, {sum.data()}, nullptr, {}, &peers};
    return computer.compute(0, targets, parameters.data());
  }
};

} // namespace
} // namespace leaf_computer

BOOST_FIXTURE_TEST_SUITE(leaf_computer, Bench)

BOOST_AUTO_TEST_CASE(each_bucket_is_final_when_it_is_ready) {
  const auto buckets = make_buckets(job->graph, job->layout, 128);
  BOOST_REQUIRE(buckets.runs.size() > 1u);
  for (uint32_t threads : {1, 3}) {
    Executor executor{"test", threads};
    LeafComputer computer{job, small_data().train, executor, {}};
    for (uint64_t step : {0, 7}) // all ranks filled; five of eight empty
      on(executor, [&] {
        const std::vector<RankRange> nodes{{0, 4}, {4, 6}, {6, 7}, {7, 8}};
        const auto expected = computer.compute(step, nodes, parameters.data());
        std::vector<Buffer> sums;
        NodeTargets targets{nodes, {}, &buckets, {}};
        for (size_t i = 0; i < nodes.size(); ++i) {
          sums.emplace_back(job->layout.total);
          sums.back().fill(-77);
          targets.sums.push_back(sums.back().data());
        }
        uint32_t next = 0;
        targets.ready = [&](uint32_t bucket) {
          BOOST_TEST(bucket == next++);
          const auto [begin, end] = buckets.runs[bucket];
          for (size_t i = 0; i < nodes.size(); ++i) {
            if (!expected.nodes[i].sum)
              continue;
            for (uint32_t p = 0; p < job->graph.parameters.size(); ++p) {
              const auto at = job->layout.offsets[p];
              if (at < begin || at >= end)
                continue;
              BOOST_TEST(std::memcmp(sums[i].data() + at,
                                     expected.nodes[i].sum->data() + at,
                                     job->graph.parameters[p].size() * 4)
                         == 0);
            }
          }
        };
        auto found = computer.compute(step, targets, parameters.data());
        BOOST_TEST(next == buckets.runs.size());
        BOOST_TEST(found.leaves.size() == 8u);
      });
  }
}

BOOST_AUTO_TEST_CASE(a_node_is_the_sum_of_its_leaves_along_the_tree) {
  Executor executor{"test", 1};
  LeafComputer computer{job, small_data().train, executor, {}};
  for (uint64_t step : {0, 7}) // all ranks filled; five of eight empty
    for (auto node :
         {RankRange{0, 8}, RankRange{0, 4}, RankRange{4, 8}, RankRange{2, 4}})
      on(executor, [&] {
        std::vector<RankRange> ranks;
        for (auto rank = node.lo; rank < node.hi; ++rank)
          ranks.push_back({rank, rank + 1});
        const auto apart = computer.compute(step, ranks, parameters.data());
        const auto whole = computer.compute(step, {node}, parameters.data());
        BOOST_REQUIRE(whole.leaves.size() == ranks.size());
        for (size_t i = 0; i < ranks.size(); ++i) {
          BOOST_TEST(whole.leaves[i].virtual_rank == ranks[i].lo);
          BOOST_TEST(whole.leaves[i].loss_sum == apart.leaves[i].loss_sum);
          BOOST_TEST(whole.leaves[i].samples == apart.leaves[i].samples);
        }
        const auto sum = [&](auto self, RankRange at) -> std::vector<float> {
          if (at.size() == 1) {
            const auto& leaf = apart.nodes[at.lo - node.lo].sum;
            if (!leaf)
              return {};
            return {leaf->data(), leaf->data() + leaf->size()};
          }
          const auto [left, right] = children(at);
          auto values = self(self, left);
          const auto more = self(self, right);
          if (values.empty() || more.empty())
            return values.empty() ? more : values;
          for (size_t k = 0; k < values.size(); ++k)
            values[k] += more[k];
          return values;
        };
        const auto want = sum(sum, node);
        BOOST_REQUIRE(want.empty() == !whole.nodes[0].sum);
        if (!want.empty())
          BOOST_TEST(std::memcmp(want.data(), whole.nodes[0].sum->data(),
                                 want.size() * sizeof(float))
                     == 0);
      });
}

BOOST_AUTO_TEST_CASE(a_value_that_is_not_finite_is_never_given_away) {
  const auto buckets = make_buckets(job->graph, job->layout, 128);
  const auto several = std::vector<RankRange>{{0, 4}, {4, 5}};
  const auto one = std::vector<RankRange>{{7, 8}}; // half of it has gone
  for (uint32_t threads : {1, 3})
    for (const auto& nodes : {several, one}) {
      Executor executor{"test", threads};
      auto faults = std::make_shared<FaultTrigger>(true);
      int struck = 0;
      faults->struck = [&](StepPhase) { ++struck; };
      LeafComputer computer{job,   small_data().train, executor, {}, nullptr,
                            faults};
      on(executor, [&] {
        const auto expected = computer.compute(0, nodes, parameters.data());
        BOOST_TEST(!expected.computed_twice);
        const auto equal = [&](const std::vector<NodeSum>& sums,
                               uint32_t bucket) {
          const auto [begin, end] = buckets.runs[bucket];
          for (size_t i = 0; i < sums.size(); ++i)
            if (std::memcmp(sums[i].sum->data() + begin,
                            expected.nodes[i].sum->data() + begin,
                            (end - begin) * sizeof(float))
                != 0)
              return false;
          return true;
        };
        faults->arm({FaultKind::nan, StepPhase::compute});
        faults->pass(StepPhase::compute);
        uint32_t next = 0;
        const auto found = computer.compute(
          0, nodes, parameters.data(), {}, &buckets,
          [&](uint32_t bucket, const std::vector<NodeSum>& sums) {
            BOOST_TEST(bucket == next++);
            BOOST_TEST(equal(sums, bucket));
          });
        BOOST_TEST(struck == 1);
        BOOST_TEST(next == buckets.runs.size());
        for (uint32_t i = 0; i < next; ++i)
          BOOST_TEST(equal(found.nodes, i));
        BOOST_TEST(found.computed_twice);
        BOOST_TEST(found.trouble.empty());
        BOOST_TEST(found.leaves.size() == expected.leaves.size());
        const auto after = computer.compute(0, nodes, parameters.data());
        BOOST_TEST(!after.computed_twice);
      });
    }
}

BOOST_FIXTURE_TEST_CASE(a_step_is_abandoned_when_peers_are_gone, NormBench) {
  Executor executor{"test", 1};
  LeafComputer computer{job, small_data().train, executor, {}};
  on(executor, [&] {
    const auto compute = [&](RankPeers* peers) {
      return computer.compute(0, {{0, 8}}, parameters.data(), {}, nullptr, {},
                              nullptr, peers);
    };
    const auto alone = compute(nullptr);
    GonePeers gone;
    const auto nothing = compute(&gone);
    BOOST_TEST(nothing.abandoned);
    BOOST_TEST(nothing.nodes.empty());
    BOOST_TEST(nothing.leaves.empty());
    SayingPeers others{{false}};
    const auto again = compute(&others);
    BOOST_TEST(!again.abandoned);
    BOOST_TEST(std::memcmp(again.nodes[0].sum->data(),
                           alone.nodes[0].sum->data(), job->layout.total * 4)
               == 0);
  });
}

// All computed again, and all of them were said to have erred.
BOOST_FIXTURE_TEST_CASE(who_computes_again_for_a_peer_has_not_erred,
                        NormBench) {
  Executor executor{"test", 1};
  auto faults = std::make_shared<FaultTrigger>(true);
  LeafComputer computer{job, small_data().train, executor, {}, nullptr, faults};
  on(executor, [&] {
    Buffer expected{job->layout.total};
    Buffer found{job->layout.total};
    expected.fill(0);
    SayingPeers silent{{false}};
    compute(computer, silent, expected);
    for (const bool own : {false, true}) {
      if (own) {
        faults->arm({FaultKind::nan, StepPhase::compute});
        faults->pass(StepPhase::compute);
      }
      found.fill(0);
      SayingPeers peers{{!own, false}};
      const auto result = compute(computer, peers, found);
      BOOST_TEST(peers.asked == 2u);
      BOOST_TEST(result.computed_twice == own);
      BOOST_TEST(result.trouble == "");
      BOOST_TEST(std::memcmp(found.data(), expected.data(),
                             job->layout.total * sizeof(float))
                 == 0);
    }
    SayingPeers lasting{{true, true}};
    BOOST_CHECK_THROW(compute(computer, lasting, found), PassAbandoned);
  });
}

BOOST_AUTO_TEST_CASE(what_is_not_finite_twice_is_the_models) {
  Executor executor{"test", 1};
  LeafComputer computer{job, small_data().train, executor, {}};
  parameters.data()[0] = std::numeric_limits<float>::infinity();
  on(executor, [&] {
    const auto found = computer.compute(0, {{0, 2}}, parameters.data());
    BOOST_TEST(found.trouble.find("step 1") != std::string::npos);
    BOOST_TEST(found.trouble.find("lower --lr") != std::string::npos);
    BOOST_TEST(!found.computed_twice);
  });
}

BOOST_AUTO_TEST_CASE(a_device_that_fails_ends_the_computation) {
  Executor executor{"test", 1};
  auto faults = std::make_shared<FaultTrigger>(true);
  LeafComputer computer{job, small_data().train, executor, {}, nullptr, faults};
  faults->arm({FaultKind::device, StepPhase::compute});
  faults->pass(StepPhase::compute);
  on(executor, [&] {
    BOOST_CHECK_THROW(computer.compute(0, {{0, 2}}, parameters.data()),
                      std::runtime_error);
    BOOST_TEST(computer.compute(0, {{0, 2}}, parameters.data()).nodes.size()
               == 1u);
  });
}

BOOST_AUTO_TEST_CASE(buckets_cover_the_gradient_from_its_end) {
  for (uint64_t bytes :
       {uint64_t{1}, uint64_t{300}, uint64_t{1} << 30, uint64_t{0}}) {
    const auto buckets = make_buckets(job->graph, job->layout, bytes);
    auto end = job->layout.total;
    for (auto [first, last] : buckets.runs) {
      BOOST_TEST(last == end);
      BOOST_TEST(first < last);
      end = first;
    }
    BOOST_TEST(end == 0u);
  }
  BOOST_TEST(make_buckets(job->graph, job->layout, 1).hash
             != make_buckets(job->graph, job->layout, 0).hash);
}

BOOST_AUTO_TEST_CASE(what_begins_before_its_parameters_are_there_is_the_same) {
  const auto buckets = make_buckets(job->graph, job->layout, 128);
  const std::vector<RankRange> nodes{{0, 4}, {4, 8}};
  for (uint32_t threads : {1, 3}) {
    Executor executor{"test", threads};
    LeafComputer computer{job, small_data().train, executor, {}};
    StepGradient expected;
    on(executor,
       [&] { expected = computer.compute(0, nodes, parameters.data()); });

    Buffer late{job->layout.total};
    late.fill(std::numeric_limits<float>::quiet_NaN());
    ParameterGate gate{job->graph.parameters.size(), std::chrono::minutes{1}};
    std::atomic<bool> open{false};
    std::promise<StepGradient> done;
    executor.submit([&] {
      done.set_value(computer.compute(
        0, nodes, late.data(), {}, &buckets,
        [&](uint32_t, const auto&) { BOOST_TEST(open); }, &gate));
    });
    for (uint32_t i = 0; i < job->graph.parameters.size(); ++i) {
      const auto at = job->layout.offsets[i];
      std::copy_n(parameters.data() + at, job->graph.parameters[i].size(),
                  late.data() + at);
      open = i + 1 == job->graph.parameters.size();
      gate.open(i);
    }
    const auto found = done.get_future().get();
    BOOST_TEST(!found.abandoned);
    BOOST_TEST(found.leaves.size() == 8u);
    BOOST_TEST(found.seconds >= 0);
    BOOST_REQUIRE(found.nodes.size() == nodes.size());
    for (size_t i = 0; i < nodes.size(); ++i)
      for (uint32_t p = 0; p < job->graph.parameters.size(); ++p)
        BOOST_TEST(
          std::memcmp(found.nodes[i].sum->data() + job->layout.offsets[p],
                      expected.nodes[i].sum->data() + job->layout.offsets[p],
                      job->graph.parameters[p].size() * 4)
          == 0);
  }
}

BOOST_AUTO_TEST_CASE(nothing_comes_of_what_is_abandoned) {
  for (uint32_t threads : {1, 3}) {
    Executor executor{"test", threads};
    LeafComputer computer{job, small_data().train, executor, {}};
    ParameterGate gate{job->graph.parameters.size(), std::chrono::hours{1}};
    gate.open(0);
    std::promise<StepGradient> done;
    executor.submit([&] {
      done.set_value(computer.compute(0, {{0, 4}, {4, 8}}, parameters.data(),
                                      {}, nullptr, {}, &gate));
    });
    gate.abandon();
    const auto found = done.get_future().get();
    BOOST_TEST(found.abandoned);
    BOOST_TEST(found.nodes.empty());
    BOOST_TEST(found.leaves.empty());
    on(executor, [&] { // and the next one is as ever
      BOOST_TEST(computer.compute(1, {{0, 8}}, parameters.data()).leaves.size()
                 == 8u);
    });
  }
}

/// A step's last part may have no sample for some worker: even so nothing is
/// said of it before the version is there, which proves the step before.
BOOST_AUTO_TEST_CASE(what_has_no_sample_waits_for_the_parameters_all_the_same) {
  Executor executor{"test", 1};
  LeafComputer computer{job, small_data().train, executor, {}};
  ParameterGate gate{job->graph.parameters.size(), std::chrono::hours{1}};
  std::promise<StepGradient> done;
  executor.submit([&] { // three samples for eight ranks
    done.set_value(
      computer.compute(7, {{0, 1}}, parameters.data(), {}, nullptr, {}, &gate));
  });
  gate.abandon();
  BOOST_TEST(done.get_future().get().abandoned);
}

namespace {

/// Samples that take a while to come.
class SlowSupply : public RowSupply {
public:
  explicit SlowSupply(std::chrono::milliseconds takes) : takes_(takes) {}
  void gather(const uint64_t* rows, uint32_t count, BatchMemory& out,
              const DataPass& pass) const override {
    {
      const DecodeTimer decodes{1};
      std::this_thread::sleep_for(takes_ / 2);
    }
    std::this_thread::sleep_for(takes_ - takes_ / 2);
    data_->gather(rows, count, out, pass);
  }
  void expect(const uint64_t*, uint32_t, const DataPass&) const override {}
  void pause(bool) const override {}
  void end() const override {}

private:
  std::chrono::milliseconds takes_;
  std::shared_ptr<const Dataset> data_ = small_data().train;
};

} // namespace

BOOST_AUTO_TEST_CASE(waits_for_samples_are_counted_and_kept) {
  const auto folder = std::filesystem::temp_directory_path()
                      / ("troupe-waits-" + std::to_string(::getpid()));
  for (uint32_t threads : {1, 3}) {
    for (auto takes : {0, 4}) {
      const std::chrono::milliseconds wait{takes};
      const auto slow = std::make_shared<const Dataset>(supplied_samples(
        small_data().train->shape, 500, std::make_shared<SlowSupply>(wait)));
      const auto recorder = std::make_shared<FlightRecorder>(folder.string(),
                                                             "worker:0");
      Executor executor{"test", threads};
      LeafComputer computer{job,     slow,    executor, {},
                            nullptr, nullptr, recorder};
      StepGradient found;
      on(executor, [&] {
        found = computer.compute(5, {{0, 8}}, parameters.data());
        BOOST_TEST(computer.take_data_time().wait == 0);
      });
      const auto spans = read_flights(folder.string()).all.back().spans;
      std::filesystem::remove_all(folder);
      BOOST_TEST(found.seconds >= found.data.wait);
      BOOST_TEST(found.data.wait >= found.data.decode);
      if (takes == 0) {
        BOOST_TEST(found.data.wait > 0);
        continue;
      }
      // Each rank of the thread that waited longest, a half of it decoding.
      BOOST_TEST(found.data.wait >= 1e-3 * takes);
      BOOST_TEST(found.data.decode >= 0.5e-3 * takes);
      BOOST_TEST(found.data.wait - found.data.decode >= 0.5e-3 * takes);
      BOOST_TEST(!spans.empty());
      for (const auto& span : spans) {
        BOOST_TEST((span.activity == Activity::data));
        BOOST_TEST(span.step == 6u);
        BOOST_TEST(span.end_ns - span.begin_ns >= 4'000'000u);
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
