#include "kernels/data/criteo.hpp"
#include "tests/unit/kernels/data_files.hpp"

#include <algorithm>
#include <cmath>

using namespace troupe::testing;
using troupe::LabelKind;

BOOST_AUTO_TEST_SUITE(criteo)

namespace {

using Ints = std::vector<int32_t>;

/// A line with the given numbers and categories first, the rest missing.
std::string line(const std::string& label, std::vector<std::string> numbers,
                 std::vector<std::string> categories, char separator) {
  numbers.resize(13);
  categories.resize(26);
  auto result = label;
  for (const auto& field : numbers)
    result += separator + field;
  for (const auto& field : categories)
    result += separator + field;
  return result + '\n';
}

void refuses_text(const std::string& text, std::vector<std::string> words) {
  const Folder folder;
  const auto path = folder.put("f", text);
  words.push_back(path);
  refuses_data("criteo:" + path, words);
}

} // namespace

BOOST_AUTO_TEST_CASE(tabs_commas_header_and_compression_read_alike) {
  const Folder folder;
  std::string header = "label";
  for (int i = 1; i < 40; ++i)
    header += ",c" + std::to_string(i);
  const auto rows = [](char separator) {
    return line("1", {"3", "", "-2", "0"}, {"05db9164", "", "x"}, separator)
           + line("0", {"100.0"}, {"05db9164", "05db9164"}, separator);
  };
  const auto commas = header + "\n" + rows(',');
  const auto set = *load("criteo:" + folder.put("a", commas)).train;
  for (const auto& path :
       {folder.put("b", rows('\t')), folder.put("c", rows(',')),
        folder.put("d.gz", gzip(bytes_of(rows('\t'))))}) {
    const auto other = *load("criteo:" + path).train;
    BOOST_TEST((other.values == set.values));
    BOOST_TEST((other.ids == set.ids));
    BOOST_TEST((other.labels == set.labels));
  }
  BOOST_TEST((set.shape.label == LabelKind::binary));
  BOOST_TEST((set.shape.features == troupe::Shape{13}));
  BOOST_TEST(set.shape.ids == 26u);
  BOOST_TEST(set.shape.vocabulary == 26000u);
  BOOST_TEST((set.labels == Ints{1, 0}));
  BOOST_TEST(double{set.values[0]} == std::log(4.0),
             boost::test_tools::tolerance(1e-7));
  for (size_t k = 1; k < 13; ++k)
    BOOST_TEST(set.values[k] == 0.0f);
  BOOST_TEST(double{set.values[13]} == std::log(101.0),
             boost::test_tools::tolerance(1e-7));
  BOOST_TEST(set.ids[0] == set.ids[26]);
  BOOST_TEST(set.ids[0] > 0);
  BOOST_TEST(set.ids[0] < 1000);
  BOOST_TEST(set.ids[1] == 1000);
  BOOST_TEST(set.ids[27] > 1000);
  // The same word means the same bucket in each field.
  BOOST_TEST(set.ids[27] - 1000 == set.ids[0]);
}

BOOST_AUTO_TEST_CASE(the_hash_never_changes) {
  const Folder folder;
  const auto path = folder.put("f", line("1", {}, {"05db9164", "a"}, '\t'));
  const auto set = *load("criteo:" + path + "?buckets=1000000").train;
  // Weights trained with other numbers would be worthless.
  BOOST_TEST(set.ids[0] == 33608);
  BOOST_TEST(set.ids[1] == 1194954);
  BOOST_TEST(set.ids[25] == 25'000'000);
  BOOST_TEST(set.shape.vocabulary == 26'000'000u);
}

BOOST_AUTO_TEST_CASE(bad_lines_are_named) {
  refuses_text("", {"no samples"});
  refuses_text("label,a\n", {":1:", "2 fields", "40"});
  refuses_text(line("2", {}, {}, ','), {":1:", "\"2\"", "neither 0 nor 1"});
  refuses_text(line("", {}, {}, ','), {":1:", "neither 0 nor 1"});
  refuses_text(line("1", {"x"}, {}, '\t'), {":1:", "column 1", "\"x\""});
  refuses_text(line("1", {"1", "nan"}, {}, '\t'), {":1:", "column 2"});
  refuses_text(line("1", {}, {}, ',') + "1,2\n", {":2:", "2 fields"});
  refuses_text(line("1", {}, {}, ',') + line("label", {}, {}, ','), {":2:"});
  for (auto buckets : {"1", "0", "4000001", "x"})
    refuses_spec(std::string{"criteo:f?buckets="} + buckets, {"buckets="});
}

BOOST_AUTO_TEST_CASE(the_sample_of_criteo_is_read_whole) {
  const auto path = real_file("criteo/criteo_sample.csv");
  if (!path)
    return;
  const auto parts = load("criteo:" + *path, 0.1);
  const auto& train = *parts.train;
  BOOST_TEST(train.samples() == 180u);
  BOOST_TEST(parts.eval->samples() == 20u);
  for (size_t i = 0; i < train.ids.size(); ++i)
    BOOST_REQUIRE(train.ids[i] / 1000 == static_cast<int32_t>(i % 26));
  BOOST_TEST(std::count(train.labels.begin(), train.labels.end(), 1) > 0);
  BOOST_TEST(double{train.values[2]} == std::log(261.0),
             boost::test_tools::tolerance(1e-7));
}

BOOST_AUTO_TEST_SUITE_END()
