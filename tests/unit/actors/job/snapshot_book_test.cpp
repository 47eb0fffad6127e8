#include "actors/job/snapshot_book.hpp"
#include "actors/job/snapshot_names.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <vector>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(snapshot_book)

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

BOOST_AUTO_TEST_CASE(a_version_is_whole_once_until_it_is_wanted_again) {
  const Job job{options(), 64};
  SnapshotBook book{job};
  const auto whole = [&] {
    int times = 0;
    for (const auto& slice : job.plan.slices) {
      const std::vector<float> values(slice.count, 1);
      times += static_cast<int>(
        book.add({1, 29, slice.id, TensorView::copy(values), {}}).size());
    }
    return times;
  };
  BOOST_TEST(whole() == 1);
  BOOST_TEST(whole() == 0);
  book.again(29); // the run ends with the version that was evaluated
  BOOST_TEST(whole() == 1);
}

// What an evaluation reads of a table comes apart from the whole of it; that
// will do as well.
BOOST_AUTO_TEST_CASE(a_version_with_tables_has_a_snapshot_for_its_evaluation) {
  auto of = options();
  of.model = "dlrm";
  of.data = "synthetic:clicks?samples=400&buckets=3000";
  of.strategy = Strategy::parameter_server;
  const Job job{of, load_dataset(parse_data_spec(of.data))};
  BOOST_TEST_REQUIRE(!job.tables.empty());
  const auto add = [&](SnapshotBook& book, bool dense, bool part, bool whole) {
    std::vector<bool> kinds;
    const auto took = [&](const std::vector<Snapshot>& made) {
      for (const auto& snapshot : made)
        kinds.push_back(snapshot.evaluated);
    };
    for (const auto& slice : job.plan.slices) {
      const std::vector<float> values(slice.sparse() ? 1 : slice.count, 1);
      const auto view = TensorView::copy(values);
      if (!slice.sparse() && dense)
        took(book.add(SnapshotSlice{1, 7, slice.id, view, {}}));
      if (slice.sparse() && part)
        took(book.add(
          RowSnapshot{1, evaluation_name(7), slice.id, 0, 1, 9, view}));
      if (slice.sparse() && whole)
        took(book.add(RowSnapshot{1, 7, slice.id, 0, 1, 9, view}));
    }
    std::sort(kinds.begin(), kinds.end()); // which comes first does not matter
    return kinds;
  };
  const std::vector<bool> none;
  const std::vector<bool> evaluated{true};
  const std::vector<bool> all{false};
  const std::vector<bool> both{false, true};
  SnapshotBook book{job};
  BOOST_CHECK(add(book, true, true, false) == evaluated);
  BOOST_CHECK(add(book, false, true, false) == none); // it came before
  BOOST_CHECK(add(book, false, false, true) == all);  // for a checkpoint
  SnapshotBook other{job};
  BOOST_CHECK(add(other, true, false, true) == both);
  other.again(7);
  BOOST_CHECK(add(other, true, true, true) == both);
}

BOOST_AUTO_TEST_SUITE_END()
