#include "strategies/dense_reduced_steps.hpp"

#include <boost/test/unit_test.hpp>

#include <string>
#include <utility>

using namespace troupe;

namespace dense_reduced_steps {
namespace {

/// What is to be done, in short: "pull 3", "compute 3" …
struct Shown {
  std::string operator()(const DenseReducedSteps::Pull& x) const {
    return "pull " + std::to_string(x.version);
  }
  std::string operator()(const DenseReducedSteps::PullLost& x) const {
    return "pull lost " + std::to_string(x.lost.step) + " beside "
           + std::to_string(x.version);
  }
  std::string operator()(const DenseReducedSteps::ComputeLost& x) const {
    return "compute lost " + std::to_string(x.lost.step);
  }
  std::string operator()(const DenseReducedSteps::NextStep&) const {
    return "next";
  }
  std::string operator()(const DenseReducedSteps::Compute& x) const {
    return "compute " + std::to_string(x.step);
  }
  std::string operator()(const DenseReducedSteps::Finish& x) const {
    return "finish " + std::to_string(x.step);
  }
};

std::string shown(const DenseReducedSteps::Actions& actions) {
  std::string out;
  for (const auto& action : actions)
    out += (out.empty() ? "" : ", ") + std::visit(Shown{}, action);
  return out;
}

/// A worker of one of two halves of eight virtual ranks.
struct OneOfTwo {
  std::string
  epoch(uint64_t version, const std::vector<RankRange>& missing = {{0, 8}},
        std::vector<LostLeaves> lost = {}, bool prefetches = false) {
    nodes.begin_epoch(version, {0, 4}, missing, {{0, 8}}, 8);
    return shown(steps.begin_epoch({version, 10, std::move(lost), prefetches}));
  }

  StepNodes nodes;
  DenseReducedSteps steps{nodes};
};

} // namespace
} // namespace dense_reduced_steps

BOOST_FIXTURE_TEST_SUITE(dense_reduced_steps, OneOfTwo)

BOOST_AUTO_TEST_CASE(a_step_needs_rows_and_dense_variables_of_its_version) {
  BOOST_TEST(epoch(0) == "pull 0");
  BOOST_TEST(shown(steps.rows_arrived()) == "compute 0");
  BOOST_TEST(steps.next_step() == 1u);
  BOOST_TEST(shown(steps.computed()) == "finish 0, pull 1");
  BOOST_TEST(shown(steps.rows_arrived()).empty()); // the sums are under way
  BOOST_TEST(shown(steps.reduced(1)) == "next, compute 1");
  BOOST_TEST(shown(steps.computed()) == "finish 1, pull 2");
  BOOST_TEST(shown(steps.reduced(2)).empty()); // rows are
  BOOST_TEST(shown(steps.rows_arrived()) == "next, compute 2");
}

BOOST_AUTO_TEST_CASE(what_is_computed_while_sealed_the_next_epoch_sends) {
  epoch(3);
  steps.rows_arrived();
  steps.seal();
  BOOST_TEST(shown(steps.computed()).empty());
  BOOST_TEST(epoch(3, {}) == "finish 3, pull 4");
  BOOST_TEST(shown(steps.reduced(4)).empty());
  BOOST_TEST(shown(steps.rows_arrived()) == "next, compute 4");
}

BOOST_AUTO_TEST_CASE(
  rows_that_were_lost_are_computed_first_with_what_there_is) {
  BOOST_TEST(epoch(5, {{0, 8}}, {{3, {{1, 2}}}, {4, {{0, 1}}}})
             == "pull lost 3 beside 5");
  BOOST_TEST(steps.rows_beside() == 5u);
  BOOST_TEST(steps.wanted() == 3u);
  BOOST_TEST(steps.next_step() == 5u);
  BOOST_TEST(shown(steps.rows_arrived()) == "compute lost 3");
  BOOST_TEST(shown(steps.lost_computed()) == "pull lost 4 beside 5");
  BOOST_TEST(shown(steps.rows_arrived()) == "compute lost 4");
  BOOST_TEST(shown(steps.lost_computed()) == "pull 5");
  BOOST_TEST(steps.rows_beside() == 5u);
  BOOST_TEST(shown(steps.rows_arrived()) == "compute 5");
}

BOOST_AUTO_TEST_CASE(rows_that_run_free_are_pulled_beside_a_computation) {
  epoch(0, {{0, 8}}, {}, true);
  BOOST_TEST(shown(steps.rows_arrived()) == "compute 0, pull 1");
  BOOST_TEST(shown(steps.rows_arrived()).empty());
  BOOST_TEST(shown(steps.computed()) == "finish 0"); // they are here already
  BOOST_TEST(shown(steps.reduced(1)) == "next, compute 1, pull 2");
}

BOOST_AUTO_TEST_CASE(a_pause_begins_no_step_until_the_end_is_told) {
  epoch(0);
  steps.rows_arrived();
  steps.pause();
  BOOST_TEST(steps.next_step() == 1u); // that one it has begun
  BOOST_TEST(shown(steps.computed()) == "finish 0, pull 1");
  steps.rows_arrived();
  BOOST_TEST(shown(steps.reduced(1)) == "next"); // the sums may go
  BOOST_TEST(steps.next_step() == 1u);
  BOOST_TEST(shown(steps.end_at(2)) == "compute 1");
  BOOST_TEST(shown(steps.computed()) == "finish 1, pull 2");
  steps.rows_arrived();
  BOOST_TEST(shown(steps.reduced(2)) == "next");
  BOOST_TEST(shown(steps.end_at(2)).empty());
}

BOOST_AUTO_TEST_CASE(at_the_end_nothing_is_computed) {
  BOOST_TEST(epoch(10, {}) == "pull 10");
  BOOST_TEST(shown(steps.rows_arrived()).empty());
}

BOOST_AUTO_TEST_SUITE_END()
