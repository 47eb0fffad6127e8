#include "apps/process/summary_text.hpp"

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(summary_as_text)

BOOST_AUTO_TEST_CASE(what_has_no_parts_is_one_line) {
  const nlohmann::ordered_json summary{
    {"steps", 3},
    {"device", {"cpu:0", "cpu:1"}},
    {"eval", nullptr},
    {"curve", {{"step", {1, 2, 3}}, {"loss", {0.5, nullptr, 0.25}}}},
    {"recoveries", {{{"kind", "rollback"}, {"step", 1}}, {{"step", 2}}}},
    {"events", nlohmann::ordered_json::array()}};
  const auto text = summary_text(summary);
  BOOST_TEST(text == R"({
  "steps": 3,
  "device": ["cpu:0","cpu:1"],
  "eval": null,
  "curve": {
    "step": [1,2,3],
    "loss": [0.5,null,0.25]
  },
  "recoveries": [
    {"kind":"rollback","step":1},
    {"step":2}
  ],
  "events": []
}
)");
  BOOST_TEST(nlohmann::ordered_json::parse(text) == summary);
}

BOOST_AUTO_TEST_CASE(bytes_that_are_no_text_are_replaced) {
  const nlohmann::ordered_json summary{
    {"model", "a\xff"},
    {"roles", {{"b\xff", nlohmann::ordered_json::object()}}}};
  const auto json = nlohmann::json::parse(summary_text(summary));
  BOOST_TEST(json["model"] == "a\xEF\xBF\xBD");
}

BOOST_AUTO_TEST_SUITE_END()
