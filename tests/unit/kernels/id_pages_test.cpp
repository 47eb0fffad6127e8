#include "kernels/table/id_pages.hpp"

#include <boost/test/unit_test.hpp>

#include <limits>
#include <random>
#include <set>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(id_pages_test)

namespace {

constexpr uint64_t any_number = std::numeric_limits<uint64_t>::max();

std::vector<uint64_t> ids_of(const IdPages& pages) {
  std::vector<uint64_t> ids;
  for_each_id(pages, [&](uint64_t id) { ids.push_back(id); });
  return ids;
}

std::vector<uint64_t> random_ids(uint32_t seed, size_t count, uint64_t range) {
  std::mt19937_64 random(seed);
  std::set<uint64_t> ids;
  while (ids.size() < count)
    ids.insert(random() % range);
  return {ids.begin(), ids.end()};
}

std::vector<uint64_t> run(uint64_t first, uint64_t count) {
  std::vector<uint64_t> ids(count);
  for (uint64_t i = 0; i < count; ++i)
    ids[i] = first + i;
  return ids;
}

} // namespace

BOOST_AUTO_TEST_CASE(a_set_of_ids_comes_back_from_its_pages_and_its_bytes) {
  const std::vector<std::vector<uint64_t>> cases{
    {},
    {0},
    {any_number},
    {0, any_number - 1, any_number},
    run(0, 1000),
    run(12'345, 64),
    run(any_number - 199, 200),
    random_ids(1, 300, 400),
    random_ids(2, 300, 10'000),
    random_ids(3, 300, any_number)};
  for (const auto& ids : cases) {
    const auto pages = pages_of(ids);
    BOOST_TEST(ids_of(pages) == ids, boost::test_tools::per_element());
    BOOST_TEST(count_ids(pages) == ids.size());
    const auto back = decode_pages(encode_pages(pages), ids.size());
    BOOST_TEST_REQUIRE(back.has_value());
    BOOST_CHECK(*back == pages);
  }
}

BOOST_AUTO_TEST_CASE(an_id_that_repeats_counts_once) {
  const std::vector<uint64_t> ids{3, 3, 3, 70};
  BOOST_TEST(count_ids(pages_of(ids)) == 2u);
}

BOOST_AUTO_TEST_CASE(
  ids_in_a_row_take_a_few_bytes_and_scattered_ones_few_more) {
  BOOST_TEST(encode_pages(pages_of(run(0, 640'000))).size() < 10u);
  const auto scattered = random_ids(4, 1000, any_number);
  BOOST_TEST(encode_pages(pages_of(scattered)).size() < 12u * 1000);
}

BOOST_AUTO_TEST_CASE(bytes_of_more_ids_than_asked_for_are_refused) {
  const auto bytes = encode_pages(pages_of(run(0, 64 * 1000)));
  BOOST_CHECK(decode_pages(bytes, 64 * 1000).has_value());
  BOOST_CHECK(!decode_pages(bytes, 64 * 1000 - 1).has_value());
}

BOOST_AUTO_TEST_CASE(bytes_that_are_cut_or_changed_never_give_a_wrong_set) {
  const auto bytes = encode_pages(pages_of(random_ids(5, 200, 5000)));
  for (size_t cut = 0; cut < bytes.size(); ++cut)
    if (auto pages = decode_pages({bytes.data(), cut}, 200))
      BOOST_TEST(count_ids(*pages) < 200u);
  std::mt19937 random(6);
  for (int i = 0; i < 2000; ++i) {
    auto changed = bytes;
    changed[random() % bytes.size()] = static_cast<std::byte>(random());
    const auto pages = decode_pages(changed, 5000);
    if (!pages)
      continue;
    BOOST_TEST(count_ids(*pages) <= 5000u);
    for (size_t k = 1; k < pages->size(); ++k)
      BOOST_TEST_REQUIRE((*pages)[k - 1].page < (*pages)[k].page);
  }
}

BOOST_AUTO_TEST_CASE(sets_are_united_and_taken_away) {
  const auto a = random_ids(7, 300, 1000);
  const auto b = random_ids(8, 300, 1000);
  std::vector<uint64_t> both;
  std::vector<uint64_t> rest;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(),
                 std::back_inserter(both));
  std::set_difference(a.begin(), a.end(), b.begin(), b.end(),
                      std::back_inserter(rest));
  BOOST_CHECK(united(pages_of(a), pages_of(b)) == pages_of(both));
  BOOST_CHECK(without(pages_of(a), pages_of(b)) == pages_of(rest));
  BOOST_CHECK(without(pages_of(a), pages_of(a)).empty());
}

BOOST_AUTO_TEST_CASE(pages_are_spread_evenly_over_partitions) {
  constexpr uint32_t partitions = 16;
  std::vector<uint32_t> pages(partitions);
  for (uint64_t page = 0; page < 160'000; ++page) {
    const auto part = partition_of(page, partitions);
    BOOST_TEST_REQUIRE(part < partitions);
    ++pages[part];
  }
  for (auto count : pages)
    BOOST_TEST((count > 9500 && count < 10'500));
}

BOOST_AUTO_TEST_SUITE_END()
