#include "strategies/bucket_plan.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <numeric>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(bucket_plan)

namespace {

std::vector<Variable> variables() {
  return {{"a", {10}}, {"b", {4, 5}}, {"c", {1}}, {"d", {100}}, {"e", {2, 2}}};
}

std::vector<uint32_t> backwards(size_t count) {
  std::vector<uint32_t> order(count);
  std::iota(order.rbegin(), order.rend(), 0);
  return order;
}

} // namespace

BOOST_AUTO_TEST_CASE(buckets_fill_in_the_order_gradients_become_final) {
  auto buckets = fuse(variables(), backwards(5), 80);
  BOOST_REQUIRE_EQUAL(buckets.size(), 3u);
  BOOST_TEST((buckets[0].variables == std::vector<uint32_t>{4, 3}));
  BOOST_TEST(buckets[0].elements == 104u);
  BOOST_TEST((buckets[1].variables == std::vector<uint32_t>{2, 1}));
  BOOST_TEST((buckets[2].variables == std::vector<uint32_t>{0}));
}

BOOST_AUTO_TEST_CASE(every_variable_lies_in_one_bucket_whatever_their_size) {
  for (uint64_t bytes :
       {uint64_t{0}, uint64_t{1}, uint64_t{64}, ~uint64_t{0}}) {
    std::vector<uint32_t> seen;
    uint64_t elements = 0;
    for (const auto& bucket : fuse(variables(), backwards(5), bytes)) {
      BOOST_TEST(!bucket.variables.empty());
      seen.insert(seen.end(), bucket.variables.begin(), bucket.variables.end());
      elements += bucket.elements;
    }
    BOOST_TEST((seen == backwards(5)));
    BOOST_TEST(elements == 135u);
  }
}

BOOST_AUTO_TEST_CASE(another_layout_has_another_hash) {
  const auto given = variables();
  const auto first = layout_hash(given, fuse(given, backwards(5), 80));
  BOOST_TEST(layout_hash(given, fuse(given, backwards(5), 80)) == first);
  BOOST_TEST(layout_hash(given, fuse(given, backwards(5), 800)) != first);
  auto order = backwards(5);
  std::swap(order[0], order[1]);
  BOOST_TEST(layout_hash(given, fuse(given, order, 80)) != first);
  auto renamed = given;
  renamed[2].name = "cc";
  BOOST_TEST(layout_hash(renamed, fuse(renamed, backwards(5), 80)) != first);
  auto reshaped = given;
  reshaped[1].shape = {5, 4};
  BOOST_TEST(layout_hash(reshaped, fuse(reshaped, backwards(5), 80)) != first);
}

BOOST_AUTO_TEST_SUITE_END()
