#include "kernels/files/number_line.hpp"
#include "kernels/files/text_lines.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <bit>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(number_line)

namespace {

using Numbers = std::optional<std::vector<double>>;

/// In memory that ends where the line does.
Numbers taken(const std::string& line, size_t fields) {
  const std::vector<char> exact(line.begin(), line.end());
  std::vector<double> values(fields);
  if (NumberLine{','}.take({exact.data(), exact.size()}, values))
    return values;
  return std::nullopt;
}

/// One field after another by parse_real.
Numbers wanted(const std::string& line, size_t fields) {
  std::vector<double> values;
  for (size_t at = 0; at <= line.size();) {
    const auto end = std::min(line.find(',', at), line.size());
    const auto value = parse_real(line.substr(at, end - at));
    if (!value)
      return std::nullopt;
    values.push_back(*value);
    at = end + 1;
  }
  return values.size() == fields ? Numbers{values} : std::nullopt;
}

void check_line(const std::string& line, size_t fields) {
  const auto found = taken(line, fields);
  const auto right = wanted(line, fields);
  BOOST_TEST_CONTEXT(line) {
#if defined(__x86_64__)
    BOOST_TEST(found.has_value() == right.has_value());
#else
    BOOST_TEST((right || !found)); // others are taken field by field
#endif
    for (size_t i = 0; found && right && i < fields; ++i)
      BOOST_TEST(std::bit_cast<uint64_t>((*found)[i])
                 == std::bit_cast<uint64_t>((*right)[i]));
  }
}

std::string drawn_number(std::mt19937_64& draw) {
  constexpr std::string_view signs[] = {"", "", "-", "+"};
  std::string text{signs[draw() % 4]};
  const auto digits = [&](uint64_t most) {
    for (auto left = draw() % (most + 1); left > 0; --left)
      text += static_cast<char>('0' + draw() % 10);
  };
  digits(9);
  if (draw() % 3 > 0) {
    text += '.';
    digits(9);
  }
  return text;
}

} // namespace

BOOST_AUTO_TEST_CASE(numbers_are_those_of_parse_real_to_the_bit) {
  std::mt19937_64 draw{1};
  for (int i = 0; i < 20'000; ++i) {
    const auto fields = 1 + draw() % 40;
    std::string line;
    for (size_t k = 0; k < fields; ++k)
      line += (k > 0 ? "," : "") + drawn_number(draw);
    if (draw() % 4 == 0 && !line.empty())
      line[draw() % line.size()] = "0123456789.,-+e \"x"[draw() % 18];
    check_line(line, fields);
  }
}

BOOST_AUTO_TEST_CASE(what_is_hardly_a_number_is_looked_at_closely) {
  for (const auto* text : {"",
                           "-",
                           "+",
                           ".",
                           "-.",
                           "1.",
                           ".1",
                           "-.1",
                           "+.1",
                           "--1",
                           "+-1",
                           "-+1",
                           "1.2.3",
                           "1..2",
                           "..1",
                           "1-",
                           "1e3",
                           "1e",
                           "1e400",
                           "nan",
                           "inf",
                           " 1",
                           "1 ",
                           "\t1",
                           "1 2",
                           "0",
                           "-0",
                           "-0.0",
                           "00012",
                           "123456789012345",
                           "12345678.1234567",
                           "1234567890123456",
                           "0.3745401188473625",
                           "999999999999999.",
                           ".999999999999999",
                           "-999999999999999",
                           "9007199254740993",
                           "0.1234567890123456789",
                           "1/2",
                           "1:2",
                           "\"1\"",
                           "1\r",
                           "\xff"}) {
    check_line(text, 1);
    for (const auto* other : {"5", "-2.5", ""}) {
      check_line(std::string{text} + ',' + other, 2);
      check_line(std::string{other} + ',' + text + ',' + text, 3);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_line_of_other_fields_is_not_taken) {
  for (const size_t fields : {1, 2, 63, 64, 65, 200}) {
    std::string line = "1";
    for (size_t i = 1; i < fields; ++i)
      line += ",2";
    check_line(line, fields);
    BOOST_TEST(!taken(line, fields + 1));
    if (fields > 1)
      BOOST_TEST(!taken(line, fields - 1));
  }
}

BOOST_AUTO_TEST_CASE(what_another_line_left_is_none) {
  NumberLine numbers{','};
  std::vector<double> values(2);
  BOOST_TEST(numbers.take("-7.25,-7.5", values));
  BOOST_TEST(!numbers.take("1,", values));
  BOOST_TEST(!numbers.take(",1", values));
  BOOST_TEST(!numbers.take("3", values));
  BOOST_TEST(numbers.take("3,4", values));
  BOOST_TEST(values[0] == 3);
  BOOST_TEST(values[1] == 4);
}

BOOST_AUTO_TEST_SUITE_END()
