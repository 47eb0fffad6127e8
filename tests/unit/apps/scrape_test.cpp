#include "apps/process/scrape.hpp"

#include <boost/test/unit_test.hpp>

#include <optional>
#include <stdexcept>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(scrape_)

BOOST_AUTO_TEST_CASE(lines_of_an_exposition_are_read) {
  const auto values = parse_exposition(
    "# HELP a_total Things.\n# TYPE a_total counter\n"
    "a_total{role=\"worker:0\",peer=\"a\\\\b\\\"c\\nd\"} 12.5\n\n"
    "b 1e3 1700000000000\nc{le=\"+Inf\"} +Inf\nd{at=\"\\\\n\"} 1\nlast 7");
  BOOST_REQUIRE(values.size() == 5u);
  BOOST_TEST(values[0].name == "a_total");
  BOOST_TEST(values[0].value == 12.5);
  BOOST_TEST(values[0].labels.at("role") == "worker:0");
  BOOST_TEST(values[0].labels.at("peer") == "a\\b\"c\nd");
  BOOST_TEST(values[1].value == 1000);
  BOOST_TEST(values[2].labels.at("le") == "+Inf");
  BOOST_TEST(values[3].labels.at("at") == "\\n");
  BOOST_TEST(values[4].value == 7);
}

// A stranger's text must not move a terminal's cursor.
BOOST_AUTO_TEST_CASE(labels_are_shown_as_a_terminal_may) {
  const ScrapedValue value{"a", {{"role", "worker:0"}, {"peer", "\x1b[2J"}}, 1};
  BOOST_TEST(label_of(value, "role") == "worker:0");
  BOOST_TEST(label_of(value, "peer") == "?[2J");
  BOOST_TEST(label_of(value, "state") == "");
}

BOOST_AUTO_TEST_CASE(what_is_no_exposition_is_refused) {
  for (const auto* text : {"<html>", "a{", "a{b", "a{b=\"", "a{b=\"c",
                           "a{b=\"c\\", "a{b=\"c\"}", "a x", " 1", "{} 1"})
    BOOST_CHECK_THROW(parse_exposition(text), std::runtime_error);
}

BOOST_AUTO_TEST_CASE(an_endpoint_is_asked_over_http) {
  MetricExporter exporter{"127.0.0.1:0"};
  MetricRegistry registry;
  registry.counter("things_total", "Things.").add(3);
  exporter.attach("worker:0", registry);
  bool found = false;
  for (const auto& value : scrape(exporter.address()))
    found = found || (value.name == "things_total" && value.value == 3);
  BOOST_TEST(found);
  BOOST_CHECK_THROW(scrape("127.0.0.1:1"), std::runtime_error);
  BOOST_CHECK_THROW(scrape("nowhere"), std::runtime_error);
}

// "expected HOST:PORT": an address in brackets was looked up as a name.
BOOST_AUTO_TEST_CASE(an_endpoint_of_ipv6_is_asked_as_well) {
  std::optional<MetricExporter> exporter;
  try {
    exporter.emplace("[::1]:0");
  } catch (const std::runtime_error& refused) {
    BOOST_TEST_MESSAGE("not tested: " << refused.what());
    return;
  }
  BOOST_TEST(!scrape(exporter->address()).empty());
}

BOOST_AUTO_TEST_SUITE_END()
