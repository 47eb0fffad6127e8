#include "kernels/table/row_payload.hpp"

#include <boost/test/unit_test.hpp>

#include <cstring>
#include <map>
#include <random>
#include <set>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(row_payload_test)

namespace {

using Rows = std::map<uint64_t, std::vector<float>>;

Rows random_rows(uint32_t seed, size_t count, uint64_t range, size_t width) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> draw;
  Rows rows;
  while (rows.size() < count) {
    auto& row = rows[random() % range];
    row.resize(width);
    for (auto& value : row)
      value = draw(random);
  }
  return rows;
}

IdPages pages_of(const Rows& rows) {
  std::vector<uint64_t> ids;
  for (const auto& [id, row] : rows)
    ids.push_back(id);
  return troupe::pages_of(ids);
}

std::vector<float> payload_of(const Rows& rows, size_t width) {
  const auto ids = encode_pages(pages_of(rows));
  std::vector<float> words(payload_words(ids.size(), rows.size(), width));
  auto* to = write_payload(ids, width, words);
  for (const auto& [id, row] : rows)
    to = std::copy(row.begin(), row.end(), to);
  return words;
}

} // namespace

BOOST_AUTO_TEST_CASE(rows_come_back_from_their_payload) {
  for (size_t width : {1u, 16u, 17u}) {
    const auto rows = random_rows(1, 150, 1000, width);
    const auto words = payload_of(rows, width);
    const auto back = read_payload(words, width);
    BOOST_TEST_REQUIRE(back.has_value());
    BOOST_TEST(back->rows == rows.size());
    BOOST_CHECK(back->pages == pages_of(rows));
    const auto* row = back->values;
    for (const auto& [id, values] : rows) {
      BOOST_TEST(std::memcmp(row, values.data(), width * sizeof(float)) == 0);
      row += width;
    }
  }
}

BOOST_AUTO_TEST_CASE(a_payload_without_words_has_no_rows) {
  const auto none = read_payload({}, 4);
  BOOST_TEST_REQUIRE(none.has_value());
  BOOST_TEST(none->rows == 0u);
}

BOOST_AUTO_TEST_CASE(what_is_no_payload_is_refused) {
  const auto rows = random_rows(2, 20, 100, 4);
  const auto words = payload_of(rows, 4);
  BOOST_CHECK(!read_payload(words, 5).has_value());
  for (size_t cut = 1; cut < words.size(); ++cut)
    BOOST_CHECK(!read_payload({words.data(), cut}, 4).has_value());
  auto longer = words;
  longer.push_back(0);
  BOOST_CHECK(!read_payload(longer, 4).has_value());
  auto other = words;
  other[0] = 1;
  BOOST_CHECK(!read_payload(other, 4).has_value());
}

BOOST_AUTO_TEST_CASE(a_wish_for_rows_holds_ids_alone) {
  const auto rows = random_rows(3, 50, 100'000, 4);
  const auto ids = encode_pages(pages_of(rows));
  std::vector<float> words(payload_words(ids.size(), 0, 4));
  write_payload(ids, 4, words);
  const auto wanted = read_wanted(words, 4, 50);
  BOOST_TEST_REQUIRE(wanted.has_value());
  BOOST_CHECK(*wanted == pages_of(rows));
  BOOST_CHECK(!read_wanted(words, 4, 49).has_value());
  BOOST_CHECK(!read_payload(words, 4).has_value());
}

BOOST_AUTO_TEST_CASE(a_name_stands_for_ids_that_were_sent_before) {
  const auto rows = random_rows(6, 50, 10'000, 4);
  const auto ids = encode_pages(pages_of(rows));
  const auto name = name_of(ids);
  std::vector<float> whole(payload_words(ids.size(), 0, 4));
  write_payload(ids, 4, whole, name);
  BOOST_CHECK(ids_said(whole, 4)->name == name);
  BOOST_CHECK(ids_said(whole, 4)->here);
  std::vector<float> named(payload_words(0, rows.size(), 4));
  *write_named(name, 4, named) = 7;
  BOOST_CHECK(ids_said(named, 4)->name == name);
  BOOST_CHECK(!ids_said(named, 4)->here);
  BOOST_CHECK(!read_payload(named, 4).has_value());
  BOOST_CHECK(!read_wanted(named, 4, 1000).has_value());
  BOOST_TEST_REQUIRE(values_in(named, 4, rows.size()) != nullptr);
  BOOST_TEST(*values_in(named, 4, rows.size()) == 7);
  BOOST_TEST(values_in(named, 4, rows.size() - 1) == nullptr);
  BOOST_CHECK(!ids_said(named, 5).has_value());
}

BOOST_AUTO_TEST_CASE(lists_that_differ_in_any_byte_have_other_names) {
  std::vector<std::byte> ids(40, std::byte{1});
  std::set<std::pair<uint64_t, uint64_t>> names;
  for (size_t length = 0; length <= ids.size(); ++length) {
    const auto name = name_of({ids.data(), length});
    BOOST_TEST(static_cast<bool>(name));
    names.emplace(name.low, name.high);
  }
  for (size_t at = 0; at < ids.size(); ++at) {
    auto other = ids;
    other[at] = std::byte{2};
    const auto name = name_of(other);
    names.emplace(name.low, name.high);
  }
  BOOST_TEST(names.size() == 2 * ids.size() + 1);
}

BOOST_AUTO_TEST_CASE(two_nodes_rows_are_summed_and_lone_ones_taken_over) {
  for (uint64_t range : {130u, 5000u}) {
    const size_t width = 5;
    const auto left = random_rows(4, 100, range, width);
    const auto right = random_rows(5, 100, range, width);
    auto sum = left;
    for (const auto& [id, row] : right) {
      auto [at, fresh] = sum.emplace(id, row);
      if (!fresh)
        for (size_t i = 0; i < width; ++i)
          at->second[i] += row[i];
    }
    const auto a = payload_of(left, width);
    const auto b = payload_of(right, width);
    const auto x = read_payload(a, width);
    const auto y = read_payload(b, width);
    const auto both = united(x->pages, y->pages);
    BOOST_CHECK(both == pages_of(sum));
    std::vector<float> out(count_ids(both) * width);
    sum_rows({x->pages, x->values}, {y->pages, y->values}, width, both,
             out.data());
    std::vector<float> expected;
    for (const auto& [id, row] : sum)
      expected.insert(expected.end(), row.begin(), row.end());
    BOOST_TEST(out == expected, boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(a_row_that_only_one_node_has_keeps_its_minus_zero) {
  const Rows left{{3, {-0.0f}}};
  const Rows right{{4, {-0.0f}}};
  const auto a = payload_of(left, 1);
  const auto b = payload_of(right, 1);
  const auto x = read_payload(a, 1);
  const auto y = read_payload(b, 1);
  std::vector<float> out(2);
  sum_rows({x->pages, x->values}, {y->pages, y->values}, 1,
           united(x->pages, y->pages), out.data());
  BOOST_TEST((std::signbit(out[0]) && std::signbit(out[1])));
}

BOOST_AUTO_TEST_SUITE_END()
