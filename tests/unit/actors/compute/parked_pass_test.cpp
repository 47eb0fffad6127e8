#include "actors/compute/parked_pass.hpp"
#include "kernels/engine/stage_replica.hpp"
#include "kernels/graph/models.hpp"

#include <boost/test/unit_test.hpp>

#include <memory>
#include <stdexcept>
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
