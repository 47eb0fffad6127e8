#include "kernels/data/csv.hpp"
#include "tests/unit/kernels/data_files.hpp"

#include <cmath>

using namespace troupe::testing;
using troupe::InputError;
using troupe::LabelKind;

BOOST_AUTO_TEST_SUITE(csv)

namespace {

using Ints = std::vector<int32_t>;
using Floats = std::vector<float>;

template <class Found, class Wanted>
void check_same(const Found& found, const Wanted& wanted) {
  BOOST_TEST(Wanted(found.begin(), found.end()) == wanted,
             boost::test_tools::per_element());
}

troupe::Dataset load_text(const std::string& text,
                          const std::string& options = "") {
  const Folder folder;
  return *load("csv:" + folder.put("f", text) + options).train;
}

void refuses_text(const std::string& text, std::vector<std::string> words,
                  const std::string& options = "") {
  const Folder folder;
  const auto path = folder.put("f", text);
  words.push_back(path);
  BOOST_TEST_CONTEXT(text)
  refuses_data("csv:" + path + options, words);
}

constexpr auto small = "a,b,kind\n1,2,0\n-3.5,4e1,2\n";

} // namespace

BOOST_AUTO_TEST_CASE(the_last_column_is_the_label) {
  const Folder folder;
  for (const auto& path : {folder.put("plain", small),
                           folder.put("f.gz", gzip(bytes_of(small)))}) {
    const auto set = *load("csv:" + path).train;
    BOOST_TEST((set.shape.features == troupe::Shape{2}));
    BOOST_TEST((set.shape.label == LabelKind::classes));
    BOOST_TEST(set.shape.classes == 3u);
    check_same(set.values, Floats{1, 2, -3.5f, 40});
    check_same(set.labels, Ints{0, 2});
    check_same(set.columns, std::vector<std::string>{"a", "b"});
  }
}

BOOST_AUTO_TEST_CASE(any_column_can_be_the_label) {
  check_same(load_text("y,x\n1,5\n0,6\n", "?label=y").labels, Ints{1, 0});
  check_same(load_text("y,x\n1,5\n0,6\n", "?label=0").values, Floats{5, 6});
  const auto bare = load_text("1,5\n0,6\n", "?label=0&header=false");
  check_same(bare.labels, Ints{1, 0});
  BOOST_TEST(bare.columns.empty());
  BOOST_TEST(bare.shape.classes == 2u);
}

BOOST_AUTO_TEST_CASE(regression_keeps_numbers) {
  const auto set = load_text("x,y\n1,-0.5\n2,3\n", "?task=regression");
  BOOST_TEST((set.shape.label == LabelKind::number));
  check_same(set.targets, Floats{-0.5f, 3});
  BOOST_TEST(set.labels.empty());
  BOOST_TEST(set.samples() == 2u);
}

BOOST_AUTO_TEST_CASE(separators_quotes_and_ends_of_lines_are_understood) {
  check_same(load_text("x;y\n1;0\n2;1\n", "?sep=;").values, Floats{1, 2});
  check_same(load_text("x\ty\n1\t0\n", "?sep=tab").values, Floats{1});
  check_same(load_text("x y\n1 0\n", "?sep=space").values, Floats{1});
  const auto set =
    load_text("\xef\xbb\xbf\"a \"\"b\"\", c\",y\r\n\r\n\"1\", 1\r\n 2,\"0\"",
              "?sep=comma");
  check_same(set.columns, std::vector<std::string>{"a \"b\", c"});
}

BOOST_AUTO_TEST_CASE(bad_rows_are_named) {
  refuses_text("", {"no samples"});
  refuses_text("a,b\n", {"no samples"});
  refuses_text("a\n1\n", {":1:", "one column"});
  refuses_text("a,b\n1,0\n1\n", {":3:", "1 fields", "2"});
  refuses_text("a,b\n1,0,\n", {":2:", "3 fields", "2"});
  refuses_text("a,b\n,0\n", {":2:", "\"a\"", "\"\"", "fill the gap"});
  refuses_text("a,b\nx,0\n", {":2:", "\"a\"", "\"x\""});
  refuses_text("a,b\nnan,0\n", {":2:", "\"nan\"", "finite"});
  refuses_text("a,b\n1e39,0\n", {":2:", "finite"});
  refuses_text("1,0\n-inf,0\n", {":2:", "column 0"}, "?header=false");
  refuses_text("a,b\n1,0.5\n", {":2:", "\"0.5\"", "whole number"});
  refuses_text("a,b\n1,-1\n", {":2:", "\"-1\"", "regression"});
  refuses_text("a,b\n1,70000\n", {":2:", "65535"});
  refuses_text("a,b\n1,x\n", {":2:", "\"x\""}, "?task=regression");
  refuses_text("a,b\n\"1,0\n", {":2:", "quotes", "do not end"});
  refuses_text("a,b\n\"1\"2,0\n", {":2:", "text follows"});
  refuses_text(small, {":1:", "\"c\""}, "?label=c");
  refuses_text(small, {":1:", "no column 3"}, "?label=3");
  refuses_text("\x1f\x8b\x08", {"gzip", ".gz"});
  refuses_text(std::string((size_t{16} << 20) + 400'000, '1'),
               {":1:", "16 MiB"});
}

// Symptom: who had a column of text was told to number the classes, and not
// what else a file may be read by.
BOOST_AUTO_TEST_CASE(text_points_to_what_proposes_columns) {
  const Folder folder;
  const auto path = folder.put("f", "a,b,y\n1,x,red\n");
  for (const auto* label : {"y", "a"})
    refuses_data("csv:" + path + "?label=" + label,
                 {path + ":2:", "troupe data info csv:" + path + " proposes"});
  refuses_text("a,y\n1,red\n", {":2:", "label \"red\"", "not a number"});
  refuses_text("a,y\n1,\n", {":2:", "no label", "fill the gap"});
  refuses_text("a,y\n1,x\n", {"troupe data info csv:"}, "?task=regression");
}

// Symptom: "one column", "not a number" and the like were said of these.
BOOST_AUTO_TEST_CASE(text_in_other_forms_is_named) {
  using namespace std::string_literals;
  refuses_text("\xff\xfe"s + "a\0,\0b\0\n\0"s, {"UTF-16", "iconv"});
  refuses_text("\xfe\xff"s + "\0a\0,\0b\0\n"s, {"UTF-16", "iconv"});
  refuses_text("a\0,\0b\0\n\0001\0,\0000\0\n\0"s, {"UTF-16"});
  refuses_text("\0a\0,\0b\0\n"s, {"UTF-16"});
  refuses_text("a,b\r1,0\r2,1\r", {"carriage return alone", "tr "});
  refuses_text("\"a\",b\r1,0", {"carriage return alone"});
  check_same(load_text("a,b\r\n1,0\r\n2,1\r").values, Floats{1, 2});
  check_same(load_text("\"1\r\",0\r", "?header=false&columns=0:category,1:"
                                      "target")
               .targets,
             Floats{0});
}

// Symptom: the first sample of a file without a header was lost, silently.
BOOST_AUTO_TEST_CASE(a_first_line_of_numbers_is_asked_about) {
  constexpr auto bare = "1,2,0\n3,4,1\n";
  refuses_text(bare, {"header=false", "header=true", "1"});
  BOOST_TEST(load_text(bare, "?header=false").samples() == 2u);
  BOOST_TEST(load_text(bare, "?header=true").samples() == 1u);
}

BOOST_AUTO_TEST_CASE(bad_options_are_found_without_the_file) {
  refuses_spec("csv:f?header=yes", {"header", "true, false"});
  refuses_spec("csv:f?header=false&label=y", {"label=y", "index"});
  refuses_spec("csv:f?task=ranking", {"task", "classes, regression"});
  refuses_spec("csv:f?scale=minmax", {"scale", "none, standard"});
  for (auto sep : {"a", "1", "ab", "\"", ".", "-"})
    refuses_spec(std::string{"csv:f?sep="} + sep, {"separates nothing"});
}

BOOST_AUTO_TEST_CASE(samples_to_predict_need_no_label) {
  const Folder folder;
  const auto path = folder.put("f", "x,y\n1,5\n\"0.5\",6\n");
  troupe::ReadLimits limits;
  limits.unlabelled = true;
  for (const auto* task : {"classes", "regression"}) {
    const auto set =
      *troupe::load_data(
         troupe::parse_data_spec("csv:" + path + "?label=none&task=" + task),
         {}, limits)
         .train;
    BOOST_TEST(!set.labelled);
    BOOST_TEST(set.samples() == 2u);
    check_same(set.values, Floats{1, 5, 0.5F, 6});
    BOOST_TEST((set.shape.label
                == (*task == 'c' ? LabelKind::classes : LabelKind::number)));
  }
  BOOST_CHECK_THROW(load("csv:" + path + "?label=none"), troupe::InputError);
  // A column may be called so.
  check_same(load_text("none,x\n1,5\n0,6\n", "?label=none").labels, Ints{1, 0});
}

BOOST_AUTO_TEST_CASE(an_evaluation_file_has_the_columns_of_training) {
  const Folder folder;
  const auto train = "csv:" + folder.put("train", "y;a;b\n1;2;3\n2;5;6\n")
                     + "?sep=;&label=y";
  const auto good = folder.put("good", "y;a;b\n0;8;9\n");
  const auto parts = load(train, "csv:" + good);
  check_same(parts.eval->values, Floats{8, 9});
  check_same(parts.eval->labels, Ints{0});
  BOOST_TEST((parts.eval->shape == parts.train->shape));
  const auto swapped = folder.put("swapped", "y;b;a\n0;8;9\n");
  BOOST_CHECK_EXCEPTION(load(train, "csv:" + swapped), InputError,
                        says({swapped, "\"b\"", "\"a\""}));
  const auto wide = folder.put("wide", "y;a;b;c\n0;8;9;1\n");
  BOOST_CHECK_EXCEPTION(load(train, "csv:" + wide), InputError,
                        says({wide, "3 columns", "2"}));
  const auto new_class = folder.put("new", "y;a;b\n3;8;9\n");
  BOOST_CHECK_EXCEPTION(load(train, "csv:" + new_class), InputError,
                        says({new_class, "label 3", "0 to 2"}));
  BOOST_CHECK_EXCEPTION(load(train, "csv:" + good + "?task=regression"),
                        troupe::UsageError, says({"task", "differs"}));
}

BOOST_AUTO_TEST_CASE(standard_scale_is_fitted_on_the_training_part) {
  const Folder folder;
  const auto path = folder.put("f", "a,b,y\n1,7,0\n3,7,1\n5,7,0\n100,8,1\n");
  const auto parts = load("csv:" + path + "?scale=standard", 0.25);
  const auto gathered = [](const troupe::Dataset& data, uint64_t row) {
    troupe::BatchMemory batch{graph_of(data.shape), 1};
    data.gather(&row, 1, batch);
    return Floats{batch.features(), batch.features() + 2};
  };
  const auto deviation = std::sqrt(8.0 / 3);
  const auto first = gathered(*parts.train, 0);
  BOOST_TEST(double{first[0]} == -2 / deviation,
             boost::test_tools::tolerance(1e-6));
  BOOST_TEST(gathered(*parts.train, 1)[0] == 0.0f);
  const auto held_out = gathered(*parts.eval, 0);
  BOOST_TEST(double{held_out[0]} == 97 / deviation,
             boost::test_tools::tolerance(1e-6));
  // A column that never changes in training becomes zero.
  BOOST_TEST(first[1] == 0.0f);
  BOOST_TEST(held_out[1] == 0.0f);
}

BOOST_AUTO_TEST_SUITE_END()
