#include "kernels/table/page_index.hpp"

#include <boost/test/unit_test.hpp>

#include <map>
#include <random>
#include <vector>

using namespace troupe::kernels;

BOOST_AUTO_TEST_SUITE(page_index_test)

namespace {

/// The block that begins last at or before a page; before all, the first.
bool is_right(const PageIndex::Found& found,
              const std::map<uint64_t, uint64_t>& reference, uint64_t page) {
  auto next = reference.upper_bound(page);
  if (reference.empty())
    return found.block == 0;
  if (next == reference.begin())
    ++next;
  const auto end = next == reference.end() ? ~uint64_t{0} : next->first;
  const auto at = std::prev(next);
  return found.first == at->first && found.block == at->second
         && found.end == end;
}

} // namespace

BOOST_AUTO_TEST_CASE(pages_put_replaced_and_erased_in_any_order_are_found) {
  for (uint64_t range : {300u, 20'000u, 0u}) {
    PageIndex index;
    std::map<uint64_t, uint64_t> reference;
    std::mt19937_64 random(range + 1);
    auto draw = [&] { return range == 0 ? random() : random() % range; };
    for (uint64_t i = 1; i <= 60'000; ++i) {
      const auto page = draw();
      if (random() % 3 == 0) {
        index.erase(page);
        reference.erase(page);
      } else {
        index.put(page, i);
        reference[page] = i;
      }
    }
    BOOST_TEST(index.size() == reference.size());
    for (auto [page, block] : reference)
      BOOST_TEST_REQUIRE(index.find(page).block == block);
    for (int i = 0; i < 1000; ++i) {
      const auto page = draw();
      BOOST_TEST_REQUIRE(is_right(index.find(page), reference, page));
    }
    size_t visited = 0;
    index.for_each([&](uint64_t page, uint64_t block) {
      ++visited;
      BOOST_TEST_REQUIRE(reference.at(page) == block);
    });
    BOOST_TEST(visited == reference.size());
  }
}

BOOST_AUTO_TEST_CASE(a_cursor_finds_pages_that_ascend) {
  for (uint64_t range : {300u, 5000u, 1u << 30}) {
    PageIndex index;
    std::map<uint64_t, uint64_t> reference;
    std::mt19937_64 random(range);
    for (uint64_t round = 1; round <= 60; ++round) {
      PageIndex::Cursor cursor{index};
      std::vector<uint64_t> fresh;
      for (uint64_t page = random() % 9; page < range;
           page += 1 + random() % (1 + range / 200)) {
        cursor.prefetch(page);
        BOOST_TEST_REQUIRE(is_right(cursor.find(page), reference, page));
        if (random() % 2 == 0)
          fresh.push_back(page);
      }
      for (auto page : fresh)
        index.put(page, reference[page] = round);
    }
    BOOST_TEST(index.size() == reference.size());
    uint64_t last = 0;
    index.for_each([&](uint64_t page, uint64_t) {
      BOOST_TEST_REQUIRE(page >= last);
      last = page;
    });
  }
}

BOOST_AUTO_TEST_CASE(an_index_takes_some_thirty_bytes_a_page) {
  PageIndex index;
  for (uint64_t page = 0; page < 200'000; ++page)
    index.put(page, page + 1);
  BOOST_TEST(index.bytes() < 200'000u * 40);
}

BOOST_AUTO_TEST_SUITE_END()
