#include "kernels/parquet/arrow_column.hpp"

#include <boost/test/unit_test.hpp>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

using troupe::parquet::ArrowColumn;

BOOST_AUTO_TEST_SUITE(arrow_column)

namespace {

/// A column laid out by hand, as the specification of Arrow says.
template <class T>
struct Laid {
  std::vector<T> values;
  std::vector<uint8_t> bits; ///< of those that are there; empty: all are
  std::string bytes;         ///< of texts, whose ends are `values`
  std::array<const void*, 3> buffers{};
  ArrowArray array{};
  ArrowSchema schema{};
  ArrowColumn column;

  Laid(const char* format, std::vector<T> given,
       std::vector<uint8_t> there = {}, std::string text = {},
       int64_t offset = 0)
    : values(std::move(given)), bits(std::move(there)), bytes(std::move(text)) {
    buffers = {bits.empty() ? nullptr : bits.data(), values.data(),
               bytes.data()};
    array.length = static_cast<int64_t>(values.size()) - offset;
    array.null_count = bits.empty() ? 0 : -1;
    array.offset = offset;
    array.n_buffers = 3;
    array.buffers = buffers.data();
    schema.format = format;
    column = ArrowColumn{schema};
    BOOST_TEST(column.is_readable(), format);
    column.take(array);
  }
  Laid(const Laid&) = delete;
  Laid& operator=(const Laid&) = delete;

  std::string text(int64_t row) { return std::string{column.text(row)}; }
  double real(int64_t row) { return column.real(row).value_or(-77); }
};

bool is_readable(const char* format) {
  ArrowSchema schema{};
  schema.format = format;
  return ArrowColumn{schema}.is_readable();
}

} // namespace

BOOST_AUTO_TEST_CASE(whole_numbers_have_all_digits) {
  Laid<int8_t> small{"c", {-128, 127}};
  BOOST_TEST(small.text(0) == "-128");
  BOOST_TEST(small.real(1) == 127);
  Laid<uint64_t> large{"L", {std::numeric_limits<uint64_t>::max(), 0}};
  BOOST_TEST(large.text(0) == "18446744073709551615");
  BOOST_TEST(large.real(0) == 18446744073709551616.0);
  Laid<int64_t> whole{"l", {9'007'199'254'740'993}};
  BOOST_TEST(whole.text(0) == "9007199254740993");
}

BOOST_AUTO_TEST_CASE(numbers_are_told_apart_by_their_digits) {
  const auto nan = std::numeric_limits<float>::quiet_NaN();
  const auto infinite = std::numeric_limits<float>::infinity();
  Laid<float> single{"f", {0.1f, nan, infinite, -2.5f}};
  BOOST_TEST(single.text(0) == "0.1");
  BOOST_TEST(single.real(0) == double{0.1f});
  BOOST_TEST(single.text(1) == ""); // as text of a table: missing
  BOOST_TEST(!single.column.real(1));
  BOOST_TEST(single.text(2) == "inf");
  BOOST_TEST(!single.column.real(2));
  BOOST_TEST(single.text(3) == "-2.5");
  Laid<double> twofold{"g", {0.1, 1e300}};
  BOOST_TEST(twofold.text(0) == "0.1");
  BOOST_TEST(twofold.real(1) == 1e300);
}

BOOST_AUTO_TEST_CASE(what_is_missing_is_empty) {
  // The part from 2 on: rows 0 and 2 of it are there.
  Laid<int32_t> part{"i", {1, 2, 3, 4, 5}, {0b10100}, {}, 2};
  BOOST_TEST(part.text(0) == "3");
  BOOST_TEST(part.text(1) == "");
  BOOST_TEST(!part.column.real(1));
  BOOST_TEST(part.real(2) == 5);
  Laid<uint8_t> truths{"b", {0b101}, {0b011}};
  BOOST_TEST(truths.text(0) == "true");
  BOOST_TEST(truths.text(1) == "false");
  BOOST_TEST(truths.real(1) == 0);
  BOOST_TEST(truths.text(2) == "");
  Laid<int32_t> nothing{"n", {0}};
  BOOST_TEST(nothing.text(0) == "");
}

BOOST_AUTO_TEST_CASE(texts_lie_between_their_ends) {
  Laid<int32_t> texts{"u", {0, 2, 2, 5}, {}, "ab,cd"};
  BOOST_TEST(texts.text(0) == "ab");
  BOOST_TEST(texts.text(1) == "");
  BOOST_TEST(texts.text(2) == ",cd");
  BOOST_TEST(!texts.column.real(0));
  Laid<int64_t> large{"Z", {0, 3}, {}, "xyz"};
  BOOST_TEST(large.text(0) == "xyz");
}

BOOST_AUTO_TEST_CASE(dates_are_written_out) {
  Laid<int32_t> days{"tdD", {0, -1, 19'782, 2'932'896, 12'000'000}};
  BOOST_TEST(days.text(0) == "1970-01-01");
  BOOST_TEST(days.text(1) == "1969-12-31");
  BOOST_TEST(days.text(2) == "2024-02-29");
  BOOST_TEST(days.text(3) == "9999-12-31");
  BOOST_TEST(days.text(4).find("more than four") != std::string::npos);
  Laid<int64_t> milliseconds{"tdm", {86'400'000, -86'400'000}};
  BOOST_TEST(milliseconds.text(0) == "1970-01-02");
  BOOST_TEST(milliseconds.text(1) == "1969-12-31");
  Laid<int64_t> moments{"tsu:", {-500'000, 49'507'000'000, 0}};
  BOOST_TEST(moments.text(0) == "1969-12-31 23:59:59.5");
  BOOST_TEST(moments.text(1) == "1970-01-01 13:45:07");
  Laid<int64_t> zoned{"tsn:Europe/Berlin", {1'000'000'001}};
  BOOST_TEST(zoned.text(0) == "1970-01-01 00:00:01.000000001Z");
  Laid<int32_t> times{"ttm", {3'661'050}};
  BOOST_TEST(times.text(0) == "01:01:01.05");
}

BOOST_AUTO_TEST_CASE(decimals_have_their_point) {
  const uint64_t all = std::numeric_limits<uint64_t>::max();
  // Lower and upper half of each.
  const std::vector<uint64_t> halves{12'345, 0, all - 4, all, 0, 0, 0, 1};
  const std::vector<std::pair<const char*, std::vector<std::string>>> cases{
    {"d:20,2", {"123.45", "-0.05", "0.00", "184467440737095516.16"}},
    {"d:20,0", {"12345", "-5", "0", "18446744073709551616"}},
    {"d:5,-2", {"1234500", "-500", "000", "1844674407370955161600"}}};
  for (const auto& [format, texts] : cases) {
    Laid<uint64_t> decimals{format, halves};
    for (size_t i = 0; i < texts.size(); ++i)
      BOOST_TEST(decimals.text(static_cast<int64_t>(i)) == texts[i]);
  }
}

BOOST_AUTO_TEST_CASE(a_dictionary_has_the_values) {
  Laid<int32_t> words{"u", {0, 1, 3}, {0b01}, "abb"}; // the second is missing
  Laid<int8_t> places{"c", {1, 0, 0, 5, -1}, {0b11011}};
  places.schema.dictionary = &words.schema;
  places.array.dictionary = &words.array;
  ArrowColumn column{places.schema};
  BOOST_TEST(column.is_readable());
  column.take(places.array);
  BOOST_TEST(column.text(0) == "");
  BOOST_TEST(column.text(1) == "a");
  BOOST_TEST(column.text(2) == "");
  BOOST_TEST(column.text(3) == ""); // no such value
  BOOST_TEST(column.text(4) == "");
}

BOOST_AUTO_TEST_CASE(what_holds_columns_is_not_readable) {
  for (const auto* format :
       {"+l", "+s", "+w:3", "e", "vu", "tDs", "tiM", "w:16", "d:50,2,256", ""})
    BOOST_TEST(!is_readable(format), format);
}

BOOST_AUTO_TEST_SUITE_END()
