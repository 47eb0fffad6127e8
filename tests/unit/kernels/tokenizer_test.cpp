#include "kernels/columns/fitted_columns.hpp"
#include "kernels/tokens/tokenizer.hpp"
#include "tests/unit/kernels/data_files.hpp"

#include <nlohmann/json.hpp>

#include <chrono>

// Beside the library whose files these are: tests/peers/tokenizers_peer.py.

using namespace troupe::testing;
using Json = nlohmann::json;
using troupe::fitted_columns_from_json;
using troupe::FittedColumns;
using troupe::InputError;
using troupe::load_data;
using troupe::parse_data_spec;
using troupe::Tokenizer;

BOOST_AUTO_TEST_SUITE(tokenizer)

namespace {

using Ints = std::vector<int32_t>;

const Json words_of_gpt2 = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
const Json blanks_of_llama2 = Json::parse(R"({
  "type": "Sequence", "normalizers": [
    {"type": "Prepend", "prepend": "▁"},
    {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]})");

/// Numbers tokens by their place.
Json file_of(const std::vector<std::string>& tokens,
             const std::vector<std::string>& merges) {
  Json out;
  for (size_t i = 0; i < tokens.size(); ++i)
    out["model"]["vocab"][tokens[i]] = i;
  out["model"]["type"] = "BPE";
  out["model"]["merges"] = merges;
  out["added_tokens"] = Json::array();
  return out;
}

/// Of bytes: Ġ stands for a blank, Ċ for an end of line, Ã and © for é.
Json file_of_bytes() {
  auto out = file_of({"a", "b", "c", "Ġ", "Ċ", "Ã", "©", "ab", "bc", "abc",
                      "Ġa", "Ã©", "1"},
                     {"b c", "a b", "a bc", "Ġ a", "Ã ©"});
  out["pre_tokenizer"] = words_of_gpt2;
  return out;
}

/// Of characters.
Json file_of_characters() {
  auto out = file_of({"<unk>", "a", "b", "▁", "▁a", "▁▁", "ab", "▁ab"},
                     {"▁ a", "▁ ▁", "a b", "▁a b"});
  out["normalizer"] = blanks_of_llama2;
  out["model"]["unk_token"] = "<unk>";
  return out;
}

Json added(const std::string& text, int id, bool normalized = false) {
  return {{"content", text}, {"id", id},        {"normalized", normalized},
          {"lstrip", false}, {"rstrip", false}, {"single_word", false}};
}

Ints tokens_of(const Json& file, const std::string& text,
               uint64_t left_out = 0) {
  Tokenizer made{file.dump(), "t.json"};
  Ints out;
  BOOST_TEST(made.encode(text, out) == left_out);
  Tokenizer again{made.json(), "t.json"}; // what is kept with weights
  Ints second;
  again.encode(text, second);
  BOOST_TEST(again.json() == made.json());
  BOOST_TEST(second == out, boost::test_tools::per_element());
  return out;
}

void check_tokens(const Json& file, const std::string& text, const Ints& wanted,
                  uint64_t left_out = 0) {
  BOOST_TEST_CONTEXT(text)
  BOOST_TEST(tokens_of(file, text, left_out) == wanted,
             boost::test_tools::per_element());
}

void refuses(const Json& file, std::vector<std::string> words) {
  words.push_back("t.json: ");
  BOOST_TEST_CONTEXT(words.front())
  BOOST_CHECK_EXCEPTION((Tokenizer{file.dump(), "t.json"}), InputError,
                        says(words));
}

std::string text_of(Tokenizer& tokenizer, const std::string& text) {
  Ints tokens;
  tokenizer.encode(text, tokens);
  std::string out;
  for (auto token : tokens)
    out += tokenizer.text_of(token);
  return out;
}

} // namespace

BOOST_AUTO_TEST_CASE(the_pair_that_was_learnt_first_merges_first) {
  auto file = file_of_bytes();
  check_tokens(file, "abc", {9});         // a bc, though a b is there
  check_tokens(file, "abab", {7, 7});     // none over both
  check_tokens(file, "ab bc", {7, 3, 8}); // nor over words
  check_tokens(file, "c abc", {2, 3, 9});
  file["model"]["ignore_merges"] = true;
  check_tokens(file, " ab", {3, 7});
  file["model"]["vocab"]["Ġab"] = 13;
  check_tokens(file, " ab", {13});
  file["model"]["ignore_merges"] = false;
  check_tokens(file, " ab", {3, 7});
  file["model"]["merges"] = Json::parse(R"([["a", "b"], ["b", "c"]])");
  check_tokens(file, "abc", {7, 2});
}

BOOST_AUTO_TEST_CASE(of_several_that_may_the_leftmost_does) {
  auto file = file_of({"a", "aa", "aaaa"}, {"a a", "aa aa"});
  check_tokens(file, "aaa", {1, 0});
  check_tokens(file, "aaaaa", {2, 0});
  check_tokens(file, std::string(1'000'000, 'a'), Ints(250'000, 2));
}

BOOST_AUTO_TEST_CASE(words_are_cut_as_gpt2_does) {
  const auto file = file_of_bytes();
  check_tokens(file, "a  a\n\n a1a", {0, 3, 10, 4, 4, 10, 12, 0});
  check_tokens(file, "é", {11});
  BOOST_TEST(tokens_of(file, "aß", 1) == (Ints{0, 5}));
}

BOOST_AUTO_TEST_CASE(added_tokens_stand_for_themselves) {
  auto file = file_of_bytes();
  file["added_tokens"] = {added("<a>", 20), added("<a>b", 21),
                          added("é", 22, true)};
  check_tokens(file, "a<a>bc<a>", {0, 21, 2, 20});
  file["normalizer"] = {
    {"type", "Replace"}, {"pattern", {{"String", "é"}}}, {"content", ""}};
  check_tokens(file, std::string{"a\0é<a>", 7}, {0, 20}, 1);
  file["normalizer"] = {{"type", "NFC"}};
  check_tokens(file, "<a>e\u0301a", {20, 22, 0});
  Tokenizer made{file.dump(), "t.json"};
  BOOST_TEST(made.vocabulary() == 23u);
  BOOST_TEST(text_of(made, "ab<a>\nb") == "ab<a>\nb");
}

BOOST_AUTO_TEST_CASE(characters_begin_with_a_blank_that_can_be_seen) {
  auto file = file_of_characters();
  check_tokens(file, "ab a", {7, 4});
  check_tokens(file, "b   a", {3, 2, 5, 4});
  // Several that are unknown, each or together.
  check_tokens(file, "axyb", {4, 0, 0, 2});
  file["model"]["fuse_unk"] = true;
  check_tokens(file, "axyb", {4, 0, 2});
  // The same without a step that cuts a text into words.
  file["model"]["vocab"]["b▁"] = 8;
  file["model"]["merges"].push_back("b ▁");
  check_tokens(file, "bb a", {3, 2, 2, 4});
}

BOOST_AUTO_TEST_CASE(characters_that_are_unknown_become_bytes) {
  auto file = file_of_characters();
  auto& vocabulary = file["model"]["vocab"];
  char name[8];
  for (int byte = 0; byte < 256; ++byte) {
    std::snprintf(name, sizeof name, "<0x%02X>", byte);
    vocabulary[name] = 100 + byte;
  }
  file["model"]["byte_fallback"] = true;
  file["decoder"] = Json::parse(R"({"type": "Sequence", "decoders": [
    {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
    {"type": "ByteFallback"}, {"type": "Fuse"}]})");
  check_tokens(file, "aé", {4, 100 + 0xc3, 100 + 0xa9});
  Tokenizer made{file.dump(), "t.json"};
  BOOST_TEST(text_of(made, "é\n  b") == " é\n  b");
  vocabulary.erase("<0xA9>"); // then those of é are none
  check_tokens(file, "aéà", {4, 0, 100 + 0xc3, 100 + 0xa0});
}

BOOST_AUTO_TEST_CASE(blanks_are_put_before_words_in_three_ways) {
  auto file = file_of_characters();
  file["normalizer"] = nullptr;
  file["added_tokens"] = {added("<s>", 9)};
  auto& words = file["pre_tokenizer"];
  words = {{"type", "Metaspace"}, {"replacement", "▁"}, {"split", true}};
  for (const auto* scheme : {"always", "first", "never"}) {
    words["prepend_scheme"] = scheme;
    const auto first = scheme == std::string{"never"} ? 1 : 4;
    const auto later = scheme == std::string{"always"} ? 4 : 1;
    check_tokens(file, "a<s>a", {first, 9, later});
  }
  check_tokens(file, "a  a", {1, 3, 4}); // each blank begins a word
}

BOOST_AUTO_TEST_CASE(what_is_not_built_is_refused_by_its_name) {
  const auto file = file_of_bytes();
  const auto with = [&](const char* key, Json value) {
    auto out = file;
    out[Json::json_pointer{key}] = std::move(value);
    return out;
  };
  refuses(with("/model/type", "Unigram"), {"Unigram", "BPE"});
  refuses(with("/model/dropout", 0.1), {"dropout"});
  refuses(with("/model/end_of_word_suffix", "</w>"), {"end_of_word_suffix"});
  refuses(with("/normalizer/type", "Lowercase"), {"normalizer", "Lowercase"});
  refuses(with("/pre_tokenizer/type", "BertPreTokenizer"),
          {"pre_tokenizer", "BertPreTokenizer"});
  refuses(with("/normalizer", {{"type", "Replace"},
                               {"pattern", {{"String", "a"}}},
                               {"content", std::string(17, 'a')}}),
          {"much longer"});
  refuses(with("/pre_tokenizer",
               {{"type", "Sequence"},
                {"pretokenizers", {words_of_gpt2, words_of_gpt2}}}),
          {"behind ByteLevel"});
  refuses(with("/pre_tokenizer",
               {{"type", "Sequence"},
                {"pretokenizers",
                 Json(40, {{"type", "Digits"}, {"individual_digits", true}})}}),
          {"more than 32 steps"});
  auto masked = added("<m>", 3);
  masked["lstrip"] = true;
  refuses(with("/added_tokens", {masked}), {"<m>", "lstrip"});
}

BOOST_AUTO_TEST_CASE(a_damaged_file_is_refused) {
  const auto file = file_of_bytes();
  const auto with = [&](const char* key, Json value) {
    auto out = file;
    out[Json::json_pointer{key}] = std::move(value);
    return out;
  };
  for (const auto* text : {"", "{", "[]", "{}", "null", "{\"model\":3}"})
    BOOST_CHECK_EXCEPTION((Tokenizer{text, "t.json"}), InputError,
                          says({"t.json: is no tokenizer.json"}));
  refuses(with("/model/vocab", Json::object()), {"empty"});
  refuses(with("/model/vocab", Json::array({1})), {"by their texts"});
  refuses(with("/model/vocab/a", -1), {"-1"});
  refuses(with("/model/vocab/a", 1u << 30), {"1073741824"});
  refuses(with("/model/vocab/a", 1e300), {"no tokenizer.json"});
  refuses(with("/model/merges", {"a"}), {"\"a\"", "two tokens"});
  refuses(with("/model/merges", {"a b c"}), {"two tokens"});
  refuses(with("/model/merges", {"a 1"}), {"lacks", "a1"});
  refuses(with("/model/unk_token", "<unk>"), {"lacks", "<unk>"});
  BOOST_CHECK_EXCEPTION((Tokenizer{std::string(100, '['), "t.json"}),
                        InputError, says({"nested"}));
}

BOOST_AUTO_TEST_CASE(an_expression_is_one_and_ends) {
  auto file = file_of_bytes();
  const auto split = [](const std::string& expression) -> Json {
    return {{"type", "Split"},
            {"pattern", {{"Regex", expression}}},
            {"behavior", "Isolated"},
            {"invert", false}};
  };
  file["pre_tokenizer"] = split("a(b");
  refuses(file, {"a(b", "no regular expression"});
  for (const auto* sign : {"\\h", "\\G", "(*SKIP"}) {
    file["pre_tokenizer"] = split(sign + std::string{"a)"});
    refuses(file, {sign, "not available"});
  }
  file["pre_tokenizer"] = split("(?:a|a)*b");
  Tokenizer slow{file.dump(), "t.json"};
  Ints out;
  BOOST_CHECK_EXCEPTION(slow.encode(std::string(60, 'a') + "cb", out),
                        InputError, says({"t.json", "cannot be matched"}));
}

BOOST_AUTO_TEST_CASE(an_expression_ends_on_a_long_text_too) {
  auto file = file_of_bytes();
  // A million steps at each place, none of which is too many by itself.
  file["pre_tokenizer"] = {{"type", "Split"},
                           {"pattern",
                            {{"Regex", "(?:[a-z ]|[a-z ]){20}[XYZ]"}}},
                           {"behavior", "Isolated"},
                           {"invert", false}};
  Tokenizer slow{file.dump(), "t.json"};
  std::string text;
  while (text.size() < 19'000)
    text += "many words ";
  Ints out;
  const auto begin = std::chrono::steady_clock::now();
  BOOST_CHECK_EXCEPTION(slow.encode(text, out), InputError,
                        says({"t.json", "cannot be matched"}));
  BOOST_TEST(
    (std::chrono::steady_clock::now() - begin < std::chrono::seconds{20}));
  // A few dear places are none too many.
  Tokenizer{file.dump(), "t.json"}.encode("abc def ghi jkl mno pqrX", out);
}

BOOST_AUTO_TEST_CASE(a_text_is_read_as_tokens_and_weights_keep_them) {
  const Folder folder;
  auto file = file_of_bytes();
  const auto tokens = folder.put("t.json", file.dump());
  const auto first = folder.put("1.txt", std::string{"abc abc\n"});
  folder.put("2.txt", std::string{"cb"});
  const auto with = "?tokenizer=" + tokens;
  const auto all = (folder.path / "*.txt").string();
  const auto train = load("text:" + all + with).train;
  const Ints wanted{9, 3, 9, 4, 2, 1}; // no word goes over both files
  BOOST_TEST(train->tokens == wanted, boost::test_tools::per_element());
  BOOST_TEST(train->shape.vocabulary == 13u);

  const auto kept = std::make_shared<FittedColumns>(
    fitted_columns_from_json(to_json(*train->fitted), "w"));
  BOOST_TEST((*kept == *train->fitted));
  for (const std::string& spec : {all + with, all}) {
    const auto read = load_data(parse_data_spec("text:" + spec), {}, {}, kept);
    BOOST_TEST(read.train->shape.vocabulary == 13u);
    BOOST_TEST(read.train->tokens == wanted, boost::test_tools::per_element());
  }
  const auto parts = load("text:" + first + with, 0.25);
  BOOST_TEST(parts.train->tokens.size() == 3u);
  BOOST_TEST((parts.eval->shape == parts.train->shape));
  BOOST_TEST(parts.eval->fitted == parts.train->fitted);
  BOOST_TEST(load("text:" + first + with, "text:" + first).eval->tokens.size()
             == 4u);

  // It is the same part that is held out, whoever names the tokenizer.
  const auto held = load_data(parse_data_spec("text:" + all), {0.5, {}}, {},
                              kept);
  BOOST_TEST(held.eval->tokens == Ints(wanted.begin() + 3, wanted.end()),
             boost::test_tools::per_element());
  BOOST_CHECK_EXCEPTION(
    load_data(parse_data_spec("text:" + first + "?level=byte"), {}, {}, kept),
    InputError, says({"leave level= out"}));

  file["model"]["merges"].erase(0);
  const auto other = folder.put("other.json", file.dump());
  BOOST_CHECK_EXCEPTION(
    load_data(parse_data_spec("text:" + first + "?tokenizer=" + other), {}, {},
              kept),
    InputError, says({"another tokenizer"}));
  refuses_data("text:" + folder.put("f", std::string{"aßßß"}) + with,
               {"3 characters", "no token"});
  refuses_data("text:" + first + "?tokenizer=" + first, {first, "tokenizer"});
  refuses_data("text:" + first + "?level=byte&tokenizer=" + tokens,
               {"leave level= out"});
}

BOOST_AUTO_TEST_SUITE_END()
