#include "../small_job.hpp"
#include "actors/job/shard_tables.hpp"
#include "actors/job/slice_update.hpp"
#include "actors/shard/slice_image.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(slice_images)

namespace {

Job plain_job() {
  return Job{small_job(), 500};
}
/// Slice 0 at a version, which its values are too.
SliceImage image(const Job& job, uint64_t version) {
  const std::vector<float> values(job.plan.slices[0].count,
                                  static_cast<float>(version));
  SliceImage out{version, {}, LeaseSet{version, {}}};
  for (size_t i = 0; i < 1 + state_slots(job.options.rule.kind); ++i)
    out.tensors.push_back(TensorView::copy(values));
  return out;
}

Job exact_job() {
  JobOptions options;
  options.model = "logreg";
  options.strategy = Strategy::parameter_server;
  options.tables = "sparse";
  options.sparse_updates = "exact";
  options.rule.weight_decay = 0.05f;
  options.lr.schedule = LrSchedule::inverse_sqrt;
  options.devices = {"cpu:0"};
  options.steps = 100;
  options.samples = 64;
  options.sample.features = {3};
  options.sample.ids = 2;
  options.sample.vocabulary = 900;
  options.sample.label = LabelKind::binary;
  return Job{options};
}

/// Updates the rows of a part of a table, some at a time.
struct Rows {
  explicit Rows(const Job& job)
    : job(job),
      slice(*std::ranges::find_if(job.plan.slices, &Slice::sparse)),
      all(all_rows(job, slice)),
      store(job, {slice.id}, 1, -1) {}

  void update(uint64_t count) {
    for (; count > 0; --count) {
      const auto updates = store.updates(slice.id);
      IdPages ids;
      for (const auto& page : all)
        if (const auto bits = page.bits & uint64_t{3} << updates * 7 % 61)
          ids.push_back({page.page, bits});
      const std::vector<float> gradient(count_ids(ids) * row_width(job, slice),
                                        0.25f);
      store.begin(slice.id);
      store.table(slice.id).update(
        job.options.rule, slice_update(job, slice, {updates, updates, 8}), ids,
        gradient.data());
      store.commit(slice.id);
    }
  }
  /// The version before, then the newest.
  std::vector<float> both() const {
    const auto& table = store.table(slice.id);
    const auto count = count_ids(all) * table.width();
    std::vector<float> out(2 * count);
    table.read_before(all, out.data());
    table.read(all, out.data() + count);
    return out;
  }

  const Job& job;
  const Slice& slice;
  IdPages all;
  ShardStore store;
};

} // namespace

BOOST_AUTO_TEST_CASE(rows_that_lack_updates_are_copied_as_if_they_did_not) {
  const auto job = exact_job();
  Rows from{job};
  BOOST_TEST(from.store.table(from.slice.id).rows() == count_ids(from.all));
  from.update(37);
  Rows to{job};
  put_images(job, to.store, to.slice.id,
             images_of(job, from.store, from.slice.id, true));
  BOOST_TEST(to.store.newest(to.slice.id) == 37u);
  BOOST_TEST((from.both() == to.both()));
  from.update(23);
  to.update(23);
  BOOST_TEST((from.both() == to.both()));
}

// Seed 382: the first part of version 37 came again between the parts of
// version 38, which was never whole; the follower waited for good.
BOOST_AUTO_TEST_CASE(a_part_that_comes_again_does_not_disturb_a_later_image) {
  const auto job = plain_job();
  const auto older = to_parts(image(job, 37), 0, true);
  const auto newer = to_parts(image(job, 38), 0, false);
  ImageAssembly assembly{job, 0};
  for (const auto& part : older)
    BOOST_TEST(assembly.take(part).has_value() == (&part == &older.back()));
  for (const auto& part : newer) {
    const auto whole = assembly.take(part);
    BOOST_TEST_REQUIRE(whole.has_value() == (&part == &newer.back()));
    if (whole) {
      BOOST_TEST(whole->version == 38u);
      BOOST_TEST(*whole->tensors.front().data() == 38.0f);
      BOOST_TEST(whole->leases.floor() == 38u);
    }
    for (const auto& again : older)
      BOOST_TEST(!assembly.take(again).has_value());
  }
}

BOOST_AUTO_TEST_CASE(an_image_whose_parts_all_come_twice_is_given_out_once) {
  const auto job = plain_job();
  ImageAssembly assembly{job, 0};
  int whole = 0;
  for (const auto& part : to_parts(image(job, 0), 0, false))
    for (int time = 0; time < 2; ++time)
      whole += assembly.take(part).has_value() ? 1 : 0;
  BOOST_TEST(whole == 1);
}

BOOST_AUTO_TEST_CASE(parts_without_the_first_give_no_image) {
  const auto job = plain_job();
  auto parts = to_parts(image(job, 5), 0, false);
  parts.erase(parts.begin());
  ImageAssembly assembly{job, 0};
  for (const auto& part : parts)
    BOOST_TEST(!assembly.take(part).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
