#include "actors/compute/parked_pass.hpp"
#include "actors/compute/rank_statistics.hpp"
#include "kernels/data/dataset.hpp"
#include "kernels/engine/stage_replica.hpp"
#include "kernels/graph/models.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(parked_pass)

namespace {

double asked(kernels::StatisticsExchange& exchange, double value,
             uint64_t rows) {
  rows = exchange.sum(&value, 1, rows);
  return value + 1000.0 * static_cast<double>(rows);
}

} // namespace

BOOST_AUTO_TEST_CASE(a_pass_stops_at_each_sum_and_is_taken_on) {
  ParkedPass parked;
  std::vector<double> found;
  for (int round = 0; round < 2; ++round) {
    found.clear();
    parked.begin([&] {
      found.push_back(asked(parked, 1, 2));
      found.push_back(asked(parked, 3, 4));
    });
    BOOST_TEST(parked.waits());
    BOOST_TEST(parked.share().values == std::vector<double>{1},
               boost::test_tools::per_element());
    BOOST_TEST(parked.share().rows == 2u);
    BOOST_TEST(found.empty());
    parked.go_on({{5}, 6});
    BOOST_TEST(found == std::vector<double>{6005},
               boost::test_tools::per_element());
    BOOST_TEST(parked.share().values.front() == 3);
    parked.go_on({{7}, 8});
    BOOST_TEST(!parked.waits());
    BOOST_TEST(found.back() == 8007);
  }
  parked.begin([&] { found.clear(); });
  BOOST_TEST(!parked.waits());
  BOOST_TEST(found.empty());
}

BOOST_AUTO_TEST_CASE(what_a_pass_throws_is_thrown_to_who_takes_it_on) {
  ParkedPass parked;
  const auto failing = [&] {
    asked(parked, 1, 1);
    throw std::runtime_error{"no more"};
  };
  BOOST_CHECK_THROW(parked.begin([] { throw std::runtime_error{"none"}; }),
                    std::runtime_error);
  parked.begin(failing);
  BOOST_CHECK_THROW(parked.go_on({{1}, 1}), std::runtime_error);
  BOOST_TEST(!parked.waits());
  parked.begin([] {});
}

BOOST_AUTO_TEST_CASE(a_pass_that_is_abandoned_leaves_nothing_behind) {
  const auto held = std::make_shared<int>(1);
  {
    ParkedPass parked;
    const auto waiting = [&parked, held] { asked(parked, 1, 1); };
    parked.begin(waiting);
    BOOST_TEST(held.use_count() > 2);
    parked.abandon();
    BOOST_TEST(held.use_count() == 2);
    BOOST_TEST(!parked.waits());
    parked.abandon();
    parked.begin(waiting);
  }
  BOOST_TEST(held.use_count() == 1);
}

namespace {

constexpr uint32_t parked_ranks = 3;
constexpr uint32_t parked_rows = 4;

/// The first norm's input asks for no gradient.
Graph norms_graph() {
  return make_graph(
    R"({"sample": {"features": [4, 4, 2], "classes": 3}, "operators": [
        {"kind": "batch_norm", "name": "norm_0", "cross_replica": true},
        {"kind": "conv2d", "name": "conv", "units": 4, "kernel": 3},
        {"kind": "batch_norm", "name": "norm_1", "cross_replica": true,
         "activation": "relu"},
        {"kind": "reshape"},
        {"kind": "dense", "name": "hidden", "units": 6},
        {"kind": "batch_norm", "name": "norm_2", "cross_replica": true},
        {"kind": "dense", "units": "classes"},
        {"kind": "softmax_cross_entropy"}]})");
}

/// A step of a graph, whole and in parts.
class NormsStep {
public:
  NormsStep() : layout_(graph_), parameters_(layout_.total) {
    for (uint32_t i = 0; i < graph_.parameters.size(); ++i)
      initialize(graph_, 3, i, 0, parameters_.data() + layout_.offsets[i],
                 graph_.parameters[i].size());
    std::mt19937 random(5);
    std::uniform_real_distribution<float> unit(-1, 1);
    for (uint32_t rank = 0; rank < parked_ranks; ++rank) {
      const auto rows = parked_rows - rank;
      auto& memory = samples_.emplace_back(graph_, rows);
      for (size_t i = 0; i < rows * graph_.features(); ++i)
        memory.features()[i] = unit(random);
      for (size_t i = 0; i < rows; ++i)
        memory.labels()[i] = static_cast<int32_t>(random() % 3);
      batches_.push_back(memory.batch(rows, rank));
      batches_.back().step = {9, parked_ranks};
    }
    take_whole();
  }

  /// The graph cut before `cut`.
  void check(uint32_t cut, StageOptions options) {
    options.max_rows = parked_rows;
    options.in_flight = parked_ranks;
    own_.clear();
    parked_.clear();
    const auto ops = static_cast<uint32_t>(graph_.ops.size());
    std::vector<std::unique_ptr<StageReplica>> stages;
    for (const OpRange range : {OpRange{0, cut}, OpRange{cut, ops}})
      stages.push_back(
        make_stage_replica(graph_, part_of(graph_, range), {}, options));
    std::vector<std::vector<float>> crossing(parked_ranks);
    for (int round = 0; round < 2; ++round) {
      for (auto& stage : stages)
        go(*stage, true, crossing, options);
      for (auto stage = stages.rbegin(); stage != stages.rend(); ++stage)
        go(**stage, false, crossing, options);
    }
  }

  const Graph& graph() const { return graph_; }

private:
  void take_whole() {
    RankStatistics all{parked_ranks, {0, 1, 2}};
    gradients_.assign(parked_ranks, std::vector<float>(layout_.total));
    losses_.resize(parked_ranks);
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < parked_ranks; ++rank)
      threads.emplace_back([&, rank] {
        const auto whole = make_replica(graph_, {}, parked_rows);
        auto batch = batches_[rank];
        batch.exchange = &all.of(rank);
        losses_[rank] = whole->gradient(parameters_.data(), batch,
                                        gradients_[rank].data());
      });
    for (auto& thread : threads)
      thread.join();
  }

  /// All ranks through a stage, in lock step.
  void go(StageReplica& stage, bool forward,
          std::vector<std::vector<float>>& crossing,
          const StageOptions& options) {
    const auto& layout = stage.layout();
    const auto& part = stage.part();
    auto& own = own_[&stage]; // it is read again by the pass backward
    own.resize(layout.total);
    for (auto i : part.parameters)
      std::copy_n(parameters_.data() + layout_.offsets[i],
                  graph_.parameters[i].size(), own.data() + layout.offsets[i]);
    std::vector<ParkedPass>& parked = parked_[&stage];
    if (parked.empty())
      parked = std::vector<ParkedPass>(parked_ranks);
    std::vector<std::vector<float>> out(parked_ranks);
    std::vector<std::vector<float>> found(parked_ranks);
    std::vector<LeafStats> stats(parked_ranks);
    RankShares shares{parked_ranks};
    const auto note = [&](uint32_t rank) {
      if (parked[rank].waits())
        shares.put(rank, parked[rank].share());
    };
    for (uint32_t rank = 0; rank < parked_ranks; ++rank) {
      auto batch = batches_[rank];
      batch.exchange = &parked[rank];
      found[rank].resize(layout.total);
      out[rank].resize(forward
                         ? forward_elements(graph_, part.out, batch.rows)
                         : backward_elements(graph_, part.in, batch.rows));
      parked[rank].begin([&, rank, batch] {
        const auto* in = crossing[rank].data();
        if (forward)
          stats[rank] = stage.forward(rank, own.data(), batch, in,
                                      out[rank].data());
        else
          stage.backward(rank, in, found[rank].data(), out[rank].data());
      });
      note(rank);
    }
    uint64_t sums = 0;
    for (; shares.size() > 0; ++sums) {
      BOOST_REQUIRE(shares.size() == parked_ranks);
      const auto sum = shares.take_sum();
      for (uint32_t rank = 0; rank < parked_ranks; ++rank) {
        parked[rank].go_on(sum);
        note(rank);
      }
    }
    auto wanted = rank_sums(graph_, part, forward).size();
    if (!forward && options.recompute)
      wanted += rank_sums(graph_, part, true).size();
    BOOST_TEST(sums == wanted);
    crossing = out;
    for (uint32_t rank = 0; rank < parked_ranks; ++rank) {
      if (forward && part.ops.end == graph_.ops.size())
        BOOST_TEST(stats[rank].loss_sum == losses_[rank].loss_sum);
      for (auto i : part.parameters)
        BOOST_TEST(
          (forward
           || std::equal(found[rank].data() + layout.offsets[i],
                         found[rank].data() + layout.offsets[i]
                           + graph_.parameters[i].size(),
                         gradients_[rank].data() + layout_.offsets[i])),
          graph_.parameters[i].name);
    }
  }

  Graph graph_ = norms_graph();
  Layout layout_;
  std::vector<float> parameters_;
  std::vector<BatchMemory> samples_;
  std::vector<Batch> batches_;
  std::vector<std::vector<float>> gradients_;
  std::vector<LeafStats> losses_;
  std::map<StageReplica*, std::vector<float>> own_;
  std::map<StageReplica*, std::vector<ParkedPass>> parked_;
};

} // namespace

BOOST_AUTO_TEST_CASE(sums_are_those_of_norms_that_need_them) {
  const auto graph = norms_graph();
  const auto sums = [&](OpRange ops, bool forward) {
    return rank_sums(graph, part_of(graph, ops), forward);
  };
  using Sums = std::vector<uint64_t>;
  const auto ops = static_cast<uint32_t>(graph.ops.size());
  BOOST_TEST((sums({0, ops}, true) == Sums{4, 8, 12}));
  BOOST_TEST((sums({0, ops}, false) == Sums{12, 8}));
  BOOST_TEST((sums({1, 3}, true) == Sums{8}));
  BOOST_TEST((sums({3, 5}, false).empty()));
}

BOOST_AUTO_TEST_CASE(parts_in_lock_step_have_the_bits_of_whole_passes) {
  NormsStep step;
  const auto& ops = step.graph().ops;
  for (uint32_t cut = 1; cut < ops.size(); ++cut)
    BOOST_TEST_CONTEXT("cut before " << ops[cut].name) {
      step.check(cut, {});
      step.check(cut, {.recompute = true});
      // A norm is of no layer that is computed again.
      step.check(cut, {.layers = std::vector<uint32_t>(ops.size(), 1)});
    }
}

BOOST_AUTO_TEST_CASE(passes_in_lock_step_have_memory_all_at_once) {
  const auto graph = norms_graph();
  const auto ops = static_cast<uint32_t>(graph.ops.size());
  const auto bytes = [&](OpRange range, bool recompute) {
    const auto part = part_of(graph, range);
    const StageOptions options{.max_rows = parked_rows,
                               .in_flight = parked_ranks,
                               .recompute = recompute};
    const auto told = stage_memory_bytes(graph, part, options);
    BOOST_TEST(make_stage_replica(graph, part, {}, options)->memory_bytes()
               == told);
    return told;
  };
  BOOST_TEST(bytes({0, ops}, true) >= bytes({0, ops}, false));
  BOOST_TEST(bytes({3, 5}, true) < bytes({3, 5}, false)); // without a norm
}

BOOST_AUTO_TEST_SUITE_END()
