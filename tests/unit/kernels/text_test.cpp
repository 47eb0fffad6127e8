#include "kernels/columns/fitted_columns.hpp"
#include "kernels/data/text.hpp"
#include "tests/unit/kernels/data_files.hpp"

using namespace troupe::testing;
using troupe::BatchMemory;
using troupe::cut_windows;
using troupe::fitted_columns_from_json;
using troupe::FittedColumns;
using troupe::InputError;
using troupe::LabelKind;
using troupe::load_data;
using troupe::parse_data_spec;

BOOST_AUTO_TEST_SUITE(text)

namespace {

using Ints = std::vector<int32_t>;

void check_same(const Ints& found, const Ints& wanted) {
  BOOST_TEST(found == wanted, boost::test_tools::per_element());
}

void refuses_text(const std::string& text, std::vector<std::string> words) {
  const Folder folder;
  const auto path = folder.put("f", text);
  words.push_back(path);
  refuses_data("text:" + path, words);
}

} // namespace

BOOST_AUTO_TEST_CASE(ids_stand_for_characters_or_bytes) {
  const std::string text = "ab\n\u00fc\u20ac\U0001d11eba";
  const Ints known{'\n', 'a', 'b', 0xfc, 0x20ac, 0x1d11e};
  const auto ids = troupe::ids_of_text(text, known, "prompt");
  check_same(ids, {1, 2, 0, 3, 4, 5, 2, 1});
  std::string back;
  for (auto id : ids)
    back += troupe::text_of_id(id, known);
  BOOST_TEST(back == text);
  check_same(troupe::ids_of_text("\xff\x01", {}, "prompt"), {255, 1});
  BOOST_TEST(troupe::text_of_id(255, {}) == "\xff");
  const auto refused = [&](const std::string& words) {
    return [=](const InputError& error) {
      return std::string{error.what()}.find(words) != std::string::npos;
    };
  };
  BOOST_CHECK_EXCEPTION(troupe::ids_of_text("a\u00e9", known, "prompt"),
                        InputError,
                        refused("prompt: the character '\u00e9' (U+00E9)"));
  BOOST_CHECK_EXCEPTION(troupe::ids_of_text("\t", known, "prompt"), InputError,
                        refused("character U+0009 does not"));
  BOOST_CHECK_EXCEPTION(troupe::ids_of_text("a\xff", known, "prompt"),
                        InputError, refused("prompt: byte 1 is not UTF-8"));
}

BOOST_AUTO_TEST_CASE(characters_are_numbered_in_sorted_order) {
  const Folder folder;
  const std::string text = "bü€b\n𝄞a";
  for (const auto& path :
       {folder.put("plain", text), folder.put("f.gz", gzip(bytes_of(text)))}) {
    const auto set = *load("text:" + path).train;
    BOOST_TEST((set.shape.label == LabelKind::tokens));
    BOOST_TEST(set.shape.vocabulary == 6u);
    check_same(set.tokens, {2, 3, 4, 2, 0, 5, 1});
  }
}

// They were numbered by the text that was read, so a part of the one trained on
// had other numbers.
BOOST_AUTO_TEST_CASE(characters_have_the_numbers_that_weights_know) {
  const Folder folder;
  const auto trained = *load("text:" + folder.put("all", "abcdü")).train;
  const auto kept = std::make_shared<FittedColumns>(
    fitted_columns_from_json(to_json(*trained.fitted), "w"));
  BOOST_TEST((*kept == *trained.fitted));
  const auto read = [&](const std::string& text) {
    return load_data(parse_data_spec("text:" + folder.put("f", text)), {}, {},
                     kept)
      .train;
  };
  const auto few = read("üdb");
  BOOST_TEST(few->shape.vocabulary == 5u);
  check_same(few->tokens, {4, 3, 1});
  const auto odd = read(std::string(99, 'c') + "x");
  BOOST_TEST(odd->left_out == 1u);
  check_same(odd->tokens, Ints(99, 2));
  BOOST_CHECK_THROW(read("xyz"), InputError);
}

BOOST_AUTO_TEST_CASE(characters_that_were_damaged_are_refused) {
  for (const auto* characters :
       {"[]", "[98,97]", "[97,97]", "[-1]", "[1114112]", "[0.5]", "[\"ab\"]"})
    BOOST_CHECK_EXCEPTION(
      fitted_columns_from_json(
        R"({"given":"","options":[],"columns":[],"characters":)"
          + std::string{characters} + "}",
        "w.safetensors"),
      InputError, says({"w.safetensors", "data it was trained on"}));
}

BOOST_AUTO_TEST_CASE(bytes_stay_what_they_are) {
  const Folder folder;
  const auto path = folder.put("f", Bytes{0, 255, 10, 128});
  const auto set = *load("text:" + path + "?level=byte").train;
  BOOST_TEST(set.shape.vocabulary == 256u);
  check_same(set.tokens, {0, 255, 10, 128});
}

BOOST_AUTO_TEST_CASE(the_vocabulary_never_sees_the_held_out_part) {
  const Folder folder;
  std::string text(900, 'x');
  text += std::string(99, 'x') + "y";
  const auto path = folder.put("f", text);
  const auto parts = load("text:" + path, 0.1);
  BOOST_TEST(parts.train->shape.vocabulary == 1u);
  BOOST_TEST(parts.train->tokens.size() == 900u);
  BOOST_TEST((parts.eval->shape == parts.train->shape));
  BOOST_TEST(parts.eval->left_out == 1u);
  check_same(parts.eval->tokens, Ints(99, 0));
}

BOOST_AUTO_TEST_CASE(text_of_another_kind_is_refused_for_evaluation) {
  const Folder folder;
  const auto train = folder.put("train", "abcabc");
  const auto test = folder.put("test", std::string(98, 'a') + "zz");
  BOOST_CHECK_EXCEPTION(load("text:" + train, "text:" + test), InputError,
                        says({test, "100 characters", " 2 ", "level=byte"}));
  const auto bytes = load("text:" + train + "?level=byte", "text:" + test);
  BOOST_TEST(bytes.eval->tokens.size() == 100u);
  BOOST_TEST(bytes.eval->left_out == 0u);
}

BOOST_AUTO_TEST_CASE(evaluation_takes_over_the_level_and_may_not_change_it) {
  const Folder folder;
  const auto path = folder.put("f", "abc");
  BOOST_CHECK_EXCEPTION(load("text:" + path, "text:" + path + "?level=byte"),
                        troupe::UsageError, says({"level=byte", "differs"}));
  BOOST_CHECK_EXCEPTION(load("text:" + path, std::string{"synthetic:digits"}),
                        troupe::UsageError, says({"another kind"}));
}

BOOST_AUTO_TEST_CASE(what_is_not_utf8_is_named_by_its_byte) {
  for (const char* bad :
       {"\x80", "\xff", "\xc0\x80", "\xc1\xbf", "\xe0\x80\x80", "\xed\xa0\x80",
        "\xf0\x80\x80\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80",
        "\xc3"
        "a",
        "\xe2\x82", "\xf0\x9d\x84"})
    refuses_text(std::string{"ab"} + bad, {"byte ", "level=byte"});
  refuses_text("abc\x80", {"byte 3"});
  refuses_text("", {"is empty"});
  refuses_spec("text:f?level=word", {"level", "char, byte"});
}

BOOST_AUTO_TEST_CASE(a_character_may_cross_the_reader_s_chunks) {
  const Folder folder;
  std::string text = "a";
  while (text.size() < 3u << 20)
    text += "€";
  const auto set = *load("text:" + folder.put("f", text)).train;
  BOOST_TEST(set.tokens.size() == 1 + (text.size() - 1) / 3);
  BOOST_TEST(set.shape.vocabulary == 2u);
}

BOOST_AUTO_TEST_CASE(windows_overlap_for_training_only) {
  const Folder folder;
  const auto path = folder.put("f", "abcdefghij");
  auto parts = load("text:" + path, "text:" + path);
  const auto graph = graph_of(parts.train->shape, 3);
  cut_windows(*parts.train, graph, false);
  cut_windows(*parts.eval, graph, true);
  BOOST_TEST(parts.train->samples() == 7u);
  BOOST_TEST(parts.eval->samples() == 3u);
  BatchMemory batch{graph, 2};
  const std::vector<uint64_t> rows{2, 1};
  parts.eval->gather(rows.data(), 2, batch);
  check_same({batch.ids(), batch.ids() + 6}, {6, 7, 8, 3, 4, 5});
  check_same({batch.labels(), batch.labels() + 6}, {7, 8, 9, 4, 5, 6});
  parts.train->gather(rows.data(), 2, batch);
  check_same({batch.ids(), batch.ids() + 6}, {2, 3, 4, 1, 2, 3});
}

BOOST_AUTO_TEST_CASE(tinyshakespeare_has_65_characters) {
  const auto path = real_file("text/tinyshakespeare.txt");
  if (!path)
    return;
  const auto parts = load("text:" + *path, 0.1);
  BOOST_TEST(parts.train->tokens.size() == 1003855u);
  BOOST_TEST(parts.eval->tokens.size() == 111539u);
  BOOST_TEST(parts.train->shape.vocabulary == 65u);
  BOOST_TEST(parts.eval->left_out == 0u);
}

BOOST_AUTO_TEST_CASE(a_text_that_may_not_be_held_is_not_read) {
  const Folder folder;
  // Whoever reads the first file finds that it is not UTF-8.
  const auto path = folder.put("f", "\x80" + std::string(9'999, 'a'));
  const auto refused = [&](const std::string& spec, uint64_t memory,
                           std::vector<std::string> words) {
    troupe::ReadLimits limits;
    limits.memory = memory;
    BOOST_CHECK_EXCEPTION(load_data(parse_data_spec(spec), {}, limits),
                          InputError, says(words));
  };
  refused("text:" + path, 9'999, {path, "9999 bytes of --data-memory"});
  refused("text:" + path, 10'000, {"byte 0 is not UTF-8"});
  const auto bytes = folder.put("b", std::string(10'000, 'a'));
  refused("text:" + bytes + "?level=byte", 39'999, {"39999 bytes"});
  troupe::ReadLimits enough;
  enough.memory = 40'000;
  const auto set = load_data(parse_data_spec("text:" + bytes + "?level=byte"),
                             {}, enough);
  BOOST_TEST(set.train->tokens.size() == 10'000u);
  // What a packed one takes is known as it is read.
  auto long_text = Bytes(3 << 20, 'a');
  long_text.back() = 0x80;
  const auto packed = folder.put("f.gz", gzip(long_text));
  refused("text:" + packed, 1 << 20, {"1048576 bytes of --data-memory"});
  refused("text:" + packed, 64 << 20, {"byte 3145727 is not UTF-8"});
}

BOOST_AUTO_TEST_SUITE_END()
