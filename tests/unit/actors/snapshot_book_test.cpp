#include "actors/snapshot_book.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;

namespace {

JobOptions options() {
  JobOptions out;
  out.model = "mlp:4-2";
  out.data = "memory:";
  out.devices = {"cpu:0"};
  out.optimizer = "sgd";
  out.rule.kind = OptimizerKind::sgd;
  out.sample.features = {4};
  out.sample.classes = 2;
  return out;
}

} // namespace

BOOST_AUTO_TEST_SUITE(snapshot_book)

BOOST_AUTO_TEST_CASE(a_version_is_whole_once_until_it_is_wanted_again) {
  const Job job{options(), 64};
  SnapshotBook book{job};
  const auto whole = [&] {
    int times = 0;
    for (const auto& slice : job.plan.slices) {
      const std::vector<float> values(slice.count, 1);
      times +=
        book.add({1, 29, slice.id, TensorView::copy(values), {}}).has_value();
    }
    return times;
  };
  BOOST_TEST(whole() == 1);
  BOOST_TEST(whole() == 0);
  book.again(29); // the run ends with the version that was evaluated
  BOOST_TEST(whole() == 1);
}

BOOST_AUTO_TEST_SUITE_END()
