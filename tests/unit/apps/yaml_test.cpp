#include "apps/launch/yaml.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;
using Json = nlohmann::ordered_json;

BOOST_AUTO_TEST_SUITE(yaml)

namespace {

std::string yaml_of(const Json& value) {
  return to_yaml_documents({value});
}

} // namespace

BOOST_AUTO_TEST_CASE(keys_keep_their_order_and_parts_are_indented) {
  Json value;
  value["b"] = 1;
  value["a"]["list"] = Json::array({"x", 2, true, nullptr});
  value["a"]["none"] = Json::array();
  value["a"]["empty"] = Json::object();
  BOOST_TEST(yaml_of(value)
             == "---\n"
                "b: 1\n"
                "a:\n"
                "  list:\n"
                "    - x\n"
                "    - 2\n"
                "    - true\n"
                "    - null\n"
                "  none: []\n"
                "  empty: {}\n");
}

BOOST_AUTO_TEST_CASE(a_mapping_in_a_list_begins_behind_its_dash) {
  const auto item = Json::parse(R"({"name": "a", "of": {"b": 1}, "c": [[2]]})");
  BOOST_TEST(yaml_of(Json::array({item, item}))
             == "---\n"
                "- name: a\n"
                "  of:\n"
                "    b: 1\n"
                "  c:\n"
                "    - - 2\n"
                "- name: a\n"
                "  of:\n"
                "    b: 1\n"
                "  c:\n"
                "    - - 2\n");
}

BOOST_AUTO_TEST_CASE(text_that_is_something_else_to_a_reader_is_quoted) {
  for (const auto* text :
       {"true", "No",     "ON", "null", "y",    "1",    "1e3",  "0x1f",
        "-",    "--data", "",   " a",   "a b",  "a: b", "*a",   "&a",
        "!a",   "#a",     "a#", "%a",   "@a",   "`a",   "'a",   "\"a",
        "[a",   "{a",     "~",  ".5",   "a\nb", "\n",   "a\n\n"})
    BOOST_TEST(yaml_of(text) == "---\n" + Json(text).dump() + "\n");
  for (const auto* text : {"a", "/tmp", "v1", "batch/v1", "TROUPE_NUMBER"})
    BOOST_TEST(yaml_of(text) == "---\n" + std::string{text} + "\n");
}

BOOST_AUTO_TEST_CASE(text_of_lines_is_a_block) {
  Json value;
  value["key"] = "-----BEGIN\n  AB=\n\n-----END\n";
  value["next"] = 1;
  BOOST_TEST(yaml_of(value)
             == "---\n"
                "key: |\n"
                "  -----BEGIN\n"
                "    AB=\n"
                "\n"
                "  -----END\n"
                "next: 1\n");
}

BOOST_AUTO_TEST_CASE(each_value_is_a_document) {
  BOOST_TEST(to_yaml_documents({1, "a"}) == "---\n1\n---\na\n");
}

BOOST_AUTO_TEST_SUITE_END()
