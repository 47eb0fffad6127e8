#include "kernels/data/libsvm.hpp"
#include "tests/unit/kernels/data_files.hpp"

using namespace troupe::testing;
using troupe::BatchMemory;
using troupe::InputError;
using troupe::LabelKind;
using troupe::SplitData;

BOOST_AUTO_TEST_SUITE(libsvm)

namespace {

using Ints = std::vector<int32_t>;
using Floats = std::vector<float>;

struct Gathered {
  Ints ids;
  Floats features;
  Ints labels;
};

Gathered gathered(const troupe::Dataset& data, std::vector<uint64_t> rows) {
  const auto count = static_cast<uint32_t>(rows.size());
  BatchMemory batch{graph_of(data.shape), count};
  data.gather(rows.data(), count, batch);
  const auto room = count * data.shape.ids;
  return {{batch.ids(), batch.ids() + room},
          {batch.features(), batch.features() + room},
          {batch.labels(), batch.labels() + count}};
}

void refuses_text(const std::string& text, std::vector<std::string> words) {
  const Folder folder;
  const auto path = folder.put("f", text);
  words.push_back(path);
  BOOST_TEST_CONTEXT(text)
  refuses_data("libsvm:" + path, words);
}

void check_same(const Ints& found, const Ints& wanted) {
  BOOST_TEST(found == wanted, boost::test_tools::per_element());
}

} // namespace

BOOST_AUTO_TEST_CASE(samples_are_ids_with_values_and_fill_up) {
  const Folder folder;
  const std::string text = "1 1:0.5 3:-2 7:1e-3\n"
                           "\n"
                           "0\t2:1 # a comment 9:9\r\n"
                           "# only a comment\n"
                           "+1";
  for (const auto& path :
       {folder.put("plain", text), folder.put("f.gz", gzip(bytes_of(text)))}) {
    const auto set = *load("libsvm:" + path).train;
    BOOST_TEST(set.samples() == 3u);
    BOOST_TEST((set.shape.label == LabelKind::binary));
    BOOST_TEST(set.shape.vocabulary == 7u);
    BOOST_TEST(set.shape.ids == 3u);
    BOOST_TEST((set.shape.features == troupe::Shape{3}));
    const auto all = gathered(set, {1, 0, 2});
    check_same(all.ids, {1, -1, -1, 0, 2, 6, -1, -1, -1});
    BOOST_TEST(all.features == (Floats{1, 0, 0, 0.5f, -2, 1e-3f, 0, 0, 0}),
               boost::test_tools::per_element());
    check_same(all.labels, {0, 1, 1});
  }
}

BOOST_AUTO_TEST_CASE(indices_start_at_zero_where_the_training_part_has_it) {
  const Folder folder;
  const auto with_zero = folder.put("zero", "0 0:1 2:1\n1 1:1\n1 1:1\n");
  check_same(gathered(*load("libsvm:" + with_zero).train, {0}).ids, {0, 2});
  const auto without = folder.put("one", "0 1:1 2:1\n1 1:1\n");
  check_same(gathered(*load("libsvm:" + without).train, {0}).ids, {0, 1});
  const auto forced = load("libsvm:" + without + "?base=0").train;
  check_same(gathered(*forced, {0}).ids, {1, 2});
  BOOST_TEST(forced->shape.vocabulary == 3u);
  refuses_data("libsvm:" + with_zero + "?base=1", {"zero:1", "index 0"});
  // The zero is in the held-out part alone.
  const auto late = folder.put("late", "0 1:1\n1 2:1\n0 0:1\n");
  BOOST_CHECK_EXCEPTION(load("libsvm:" + late, 0.3), InputError,
                        says({late, "index 0", "base=0"}));
  check_same(gathered(*load("libsvm:" + late + "?base=0", 0.3).eval, {0}).ids,
             {0});
}

BOOST_AUTO_TEST_CASE(labels_are_binary_or_classes) {
  const Folder folder;
  const auto load_text = [&](const std::string& text) {
    return *load("libsvm:" + folder.put("f", text)).train;
  };
  const auto signs = load_text("-1 1:1\n+1 1:1\n");
  BOOST_TEST((signs.shape.label == LabelKind::binary));
  check_same(signs.labels, {0, 1});
  const auto bits = load_text("0 1:1\n1.0 1:1\n");
  BOOST_TEST((bits.shape.label == LabelKind::binary));
  check_same(bits.labels, {0, 1});
  const auto classes = load_text("2 1:1\n0 1:1\n5 2:1\n");
  BOOST_TEST((classes.shape.label == LabelKind::classes));
  BOOST_TEST(classes.shape.classes == 6u);
  check_same(classes.labels, {2, 0, 5});
  refuses_text("-1 1:1\n0 1:1\n1 1:1\n", {"label -1"});
  refuses_text("-2 1:1\n", {":1:", "\"-2\""});
  refuses_text("65536 1:1\n", {":1:", "65535"});
  refuses_text("1 1:1\n0.5 1:1\n", {":2:", "\"0.5\"", "whole number"});
}

BOOST_AUTO_TEST_CASE(an_evaluation_file_is_brought_to_the_training_part) {
  const Folder folder;
  const auto train = folder.put("train", "1 1:1 4:1\n0 2:1\n");
  const auto test = folder.put("test", "0 4:3 9:1\n1 1:1 5:1 8:1\n0 6:1\n");
  const auto parts = load("libsvm:" + train, "libsvm:" + test);
  BOOST_TEST((parts.eval->shape == parts.train->shape));
  BOOST_TEST(parts.train->shape.vocabulary == 4u);
  BOOST_TEST(parts.eval->left_out == 4u);
  BOOST_TEST(parts.train->left_out == 0u);
  const auto all = gathered(*parts.eval, {0, 1, 2});
  check_same(all.ids, {3, -1, 0, -1, -1, -1});
  BOOST_TEST(all.features == (Floats{3, 0, 1, 0, 0, 0}),
             boost::test_tools::per_element());
  check_same(all.labels, {0, 1, 0});
}

BOOST_AUTO_TEST_CASE(an_evaluation_sample_too_long_names_the_remedy) {
  const Folder folder;
  const auto train = folder.put("train", "1 1:1 4:1\n0 2:1\n");
  const auto test = folder.put("test", "1 1:1 2:1 3:1\n");
  BOOST_CHECK_EXCEPTION(load("libsvm:" + train, "libsvm:" + test), InputError,
                        says({test, "holds 3", "ids=3"}));
  const auto parts = load("libsvm:" + train + "?ids=3", "libsvm:" + test);
  check_same(gathered(*parts.train, {0}).ids, {0, 3, -1});
  check_same(gathered(*parts.eval, {0}).ids, {0, 1, 2});
  refuses_data("libsvm:" + test + "?ids=2", {"holds 3", "ids=2"});
}

BOOST_AUTO_TEST_CASE(an_evaluation_label_that_training_lacks_is_refused) {
  const Folder folder;
  const auto binary = folder.put("binary", "1 1:1\n0 1:1\n");
  const auto classes = folder.put("classes", "1 1:1\n3 1:1\n");
  const auto many = folder.put("many", "4 1:1\n");
  BOOST_CHECK_EXCEPTION(load("libsvm:" + binary, "libsvm:" + classes),
                        InputError, says({classes, "label 3"}));
  BOOST_CHECK_EXCEPTION(load("libsvm:" + classes, "libsvm:" + many), InputError,
                        says({many, "label 4", "0 to 3"}));
  BOOST_TEST(load("libsvm:" + classes, "libsvm:" + binary).eval->shape.classes
             == 4u);
}

BOOST_AUTO_TEST_CASE(the_held_out_tail_is_of_its_own_length) {
  const Folder folder;
  const auto path = folder.put("f", "1 1:1 2:2\n0 3:3\n1 1:4\n0 2:5 3:6\n");
  const auto parts = load("libsvm:" + path, 0.5);
  BOOST_TEST(parts.train->samples() == 2u);
  BOOST_TEST(parts.eval->samples() == 2u);
  const auto tail = gathered(*parts.eval, {1, 0});
  check_same(tail.ids, {1, 2, 0, -1});
  BOOST_TEST(tail.features == (Floats{5, 6, 4, 0}),
             boost::test_tools::per_element());
  check_same(tail.labels, {0, 1});
}

BOOST_AUTO_TEST_CASE(bad_lines_are_named) {
  refuses_text("", {"no samples"});
  refuses_text("# nothing\n\n", {"no samples"});
  refuses_text("1\n0\n", {"INDEX:VALUE"});
  refuses_text("1 1:1\n1:1 2:1\n", {":2:", "no label"});
  refuses_text("one 1:1\n", {":1:", "\"one\""});
  refuses_text("1 1:1 2\n", {":1:", "\"2\""});
  refuses_text("1 qid:3 1:1\n", {":1:", "\"qid:3\""});
  refuses_text("1 :1\n", {":1:", "\":1\""});
  refuses_text("1 1:\n", {":1:", "\"1:\"", "value"});
  refuses_text("1 -1:1\n", {":1:", "\"-1:1\""});
  refuses_text("1 2:1 1:1\n", {":1:", "1 follows 2", "ascend"});
  refuses_text("1 2:1 2:1\n", {":1:", "2 follows 2"});
  refuses_text("1 1:nan\n", {":1:", "finite"});
  refuses_text("1 1:inf\n", {":1:", "finite"});
  refuses_text("1 1:1e39\n", {":1:", "finite"});
  refuses_text("1 1:1e999\n", {":1:", "finite"});
  refuses_text("1 1:1x\n", {":1:", "\"1:1x\""});
  refuses_text("1 2000000000:1\n", {":1:", "134217728"});
  refuses_text("1 99999999999999999999:1\n", {":1:", "134217728"});
  refuses_text(std::string{"1 1:1\n\x1b[31m\0x 2:1\n", 17}, {":2:", "?[31m?"});
}

BOOST_AUTO_TEST_CASE(bad_options_are_found_without_the_file) {
  refuses_spec("libsvm:f?base=2", {"base", "auto, 0, 1"});
  refuses_spec("libsvm:f?ids=0", {"ids=0"});
  refuses_spec("libsvm:f?scale=standard", {"scale", "knows: base, ids"});
  refuses_spec("libsvm:", {"FILE", "libsvm:FILE"});
  refuses_data("libsvm:no/such/file", {"no/such/file", "cannot be opened"});
}

BOOST_AUTO_TEST_CASE(agaricus_is_read_whole) {
  const auto train = real_file("libsvm/agaricus.train");
  const auto test = real_file("libsvm/agaricus.test");
  if (!train || !test)
    return;
  const auto parts = load("libsvm:" + *train, "libsvm:" + *test);
  BOOST_TEST(parts.train->samples() == 6513u);
  BOOST_TEST(parts.eval->samples() == 1611u);
  BOOST_TEST(parts.train->shape.vocabulary == 126u);
  BOOST_TEST(parts.train->shape.ids == 22u);
  BOOST_TEST((parts.train->shape.label == LabelKind::binary));
  BOOST_TEST((parts.train->shape == parts.eval->shape));
  BOOST_TEST(parts.eval->left_out == 0u);
  check_same({parts.train->labels.begin(), parts.train->labels.begin() + 3},
             {1, 0, 0});
}

BOOST_AUTO_TEST_SUITE_END()
