#include "../small_job.hpp"
#include "actors/shard/slice_image.hpp"

#include <boost/test/unit_test.hpp>

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

} // namespace

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
