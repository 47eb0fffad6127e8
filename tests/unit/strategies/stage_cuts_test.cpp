#include "strategies/stage_cuts.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <random>
#include <tuple>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(stage_cuts)

namespace {

CutProblem drawn_problem(std::mt19937& random, uint32_t ops, uint32_t stages) {
  CutProblem problem;
  for (uint32_t i = 0; i < ops; ++i)
    problem.ops.push_back({random() % 9, random() % 5, random() % 4});
  for (uint32_t i = 0; i <= ops; ++i) {
    const bool inside = i > 0 && i < ops;
    problem.cuts.push_back(
      {inside ? random() % 3 : 0, inside ? random() % 6 : 0, random() % 5 > 0});
  }
  for (uint32_t k = 0; k < stages; ++k)
    problem.in_flight.push_back(stages - k);
  if (random() % 2 > 0)
    problem.memory_limit = 5 + random() % 40;
  return problem;
}

/// Calls `seen(begins)` for all ways to give every stage an operator.
template <class Seen>
void all_cuts(const CutProblem& problem, std::vector<uint32_t>& begins,
              const Seen& seen) {
  if (begins.size() == problem.in_flight.size()) {
    seen();
    return;
  }
  for (auto i = begins.back() + 1; i < problem.ops.size(); ++i)
    if (problem.cuts[i].allowed) {
      begins.push_back(i);
      all_cuts(problem, begins, seen);
      begins.pop_back();
    }
}

struct Tried {
  std::optional<StageCuts> best;
  std::optional<uint64_t> min_memory;
};

Tried tried(const CutProblem& problem) {
  Tried out;
  std::vector<uint32_t> begins{0};
  all_cuts(problem, begins, [&] {
    StageCuts cuts{begins, 0, 0};
    uint64_t memory = 0;
    for (uint32_t k = 0; k < begins.size(); ++k) {
      const auto end = k + 1 < begins.size()
                         ? begins[k + 1]
                         : static_cast<uint32_t>(problem.ops.size());
      uint64_t time = problem.cuts[begins[k]].time + problem.cuts[end].time;
      uint64_t kept = 0;
      for (auto i = begins[k]; i < end; ++i) {
        time += problem.ops[i].time;
        kept += problem.ops[i].resident
                + problem.in_flight[k] * problem.ops[i].stashed;
      }
      cuts.slowest = std::max(cuts.slowest, time);
      cuts.bytes += k > 0 ? problem.cuts[begins[k]].bytes : 0;
      memory = std::max(memory, kept);
    }
    out.min_memory = std::min(out.min_memory.value_or(memory), memory);
    const auto rank = [](const StageCuts& x) {
      return std::tie(x.slowest, x.bytes, x.begins);
    };
    if (memory <= problem.memory_limit
        && (!out.best || rank(cuts) < rank(*out.best)))
      out.best = cuts;
  });
  return out;
}

} // namespace

BOOST_AUTO_TEST_CASE(no_other_cuts_are_better) {
  std::mt19937 random{7};
  uint32_t possible = 0;
  uint32_t limited = 0;
  for (int i = 0; i < 3000; ++i) {
    const auto ops = static_cast<uint32_t>(1 + random() % 9);
    const auto stages = static_cast<uint32_t>(1 + random() % 5);
    auto problem = drawn_problem(random, ops, stages);
    const auto wanted = tried(problem);
    if (i % 2 > 0)
      problem.memory = [sums = problem](auto... place) {
        return stage_memory(sums, place...);
      };
    const auto found = cut_stages(problem);
    BOOST_REQUIRE(found.has_value() == wanted.best.has_value());
    BOOST_REQUIRE(min_memory(problem) == wanted.min_memory);
    limited += !found && wanted.min_memory;
    if (!found)
      continue;
    ++possible;
    BOOST_REQUIRE(found->slowest == wanted.best->slowest);
    BOOST_REQUIRE(found->bytes == wanted.best->bytes);
    BOOST_REQUIRE(found->begins == wanted.best->begins);
  }
  BOOST_TEST(possible > 500u); // the draws are not all hopeless
  BOOST_TEST(limited > 100u);
}

BOOST_AUTO_TEST_CASE(equal_operators_are_dealt_evenly) {
  CutProblem problem;
  problem.ops.resize(8, {10, 1, 1});
  problem.cuts.resize(9);
  problem.in_flight = {4, 3, 2, 1};
  const auto cuts = cut_stages(problem);
  BOOST_REQUIRE(cuts.has_value());
  BOOST_TEST(cuts->begins == (std::vector<uint32_t>{0, 2, 4, 6}),
             boost::test_tools::per_element());
  BOOST_TEST(cuts->slowest == 20u);
  BOOST_TEST(stage_time(problem, 2, 4) == 20u);
  BOOST_TEST(stage_memory(problem, 0, 0, 2) == 10u);
}

BOOST_AUTO_TEST_CASE(a_limit_moves_layers_to_stages_that_keep_less) {
  CutProblem problem;
  problem.ops.resize(6, {10, 0, 1});
  problem.cuts.resize(7);
  problem.in_flight = {2, 1};
  problem.memory_limit = 4;
  const auto cuts = cut_stages(problem);
  BOOST_REQUIRE(cuts.has_value());
  BOOST_TEST(cuts->begins[1] == 2u);
  problem.memory_limit = 3;
  BOOST_TEST(!cut_stages(problem));
  BOOST_TEST(min_memory(problem).value() == 4u);
}

BOOST_AUTO_TEST_CASE(memory_may_be_less_than_the_sum_of_its_operators) {
  CutProblem problem;
  problem.ops.resize(6, {10, 0, 0});
  problem.cuts.resize(7);
  problem.in_flight = {2, 1};
  // Even operators lie where odd ones before them do.
  problem.memory = [&](uint32_t stage, uint32_t begin, uint32_t end) {
    return problem.in_flight[stage] * ((end - begin + 1) / 2);
  };
  BOOST_TEST(stage_memory(problem, 0, 0, 3) == 4u);
  BOOST_TEST(cut_stages(problem)->begins[1] == 3u);
  problem.memory_limit = 3;
  BOOST_TEST(cut_stages(problem)->begins[1] == 2u);
  problem.memory_limit = 1;
  BOOST_TEST(!cut_stages(problem));
  BOOST_TEST(min_memory(problem).value() == 2u);
}

BOOST_AUTO_TEST_CASE(fewer_operators_than_stages_cannot_be_cut) {
  CutProblem problem;
  problem.ops.resize(2);
  problem.cuts.resize(3);
  problem.in_flight = {1, 1, 1};
  BOOST_TEST(!cut_stages(problem));
  BOOST_TEST(!min_memory(problem));
}

BOOST_AUTO_TEST_SUITE_END()
