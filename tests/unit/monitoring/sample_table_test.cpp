#include "monitoring/exposition_text.hpp"
#include "monitoring/sample_table.hpp"

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <optional>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(sample_table_test)

namespace {

MetricSample number(MetricSample::Kind kind, std::string name, double value,
                    MetricLabels labels = {}, std::string help = "") {
  MetricSample out;
  out.kind = kind;
  out.name = std::move(name);
  out.help = std::move(help);
  out.labels = std::move(labels);
  out.value = value;
  return out;
}

MetricSample gauge(std::string name, double value, MetricLabels labels = {},
                   std::string help = "") {
  return number(MetricSample::Kind::gauge, std::move(name), value,
                std::move(labels), std::move(help));
}

MetricSample counter(std::string name, double value) {
  return number(MetricSample::Kind::counter, std::move(name), value);
}

MetricSample histogram(std::vector<double> bounds,
                       std::vector<uint64_t> cumulative) {
  MetricSample out;
  out.kind = MetricSample::Kind::histogram;
  out.name = "h";
  out.bounds = std::move(bounds);
  out.cumulative = std::move(cumulative);
  return out;
}

std::optional<prometheus::MetricFamily> family(const SampleTable& table,
                                               const std::string& name) {
  std::optional<prometheus::MetricFamily> out;
  for (auto& candidate : table.Collect())
    if (candidate.name == name) {
      BOOST_REQUIRE(!out); // each name once
      out = candidate;
    }
  return out;
}

size_t series(const SampleTable& table, const std::string& name) {
  const auto found = family(table, name);
  return found ? found->metric.size() : 0;
}

double value(const SampleTable& table, const std::string& name,
             const std::string& label, const std::string& label_value) {
  if (const auto found = family(table, name))
    for (auto& metric : found->metric)
      for (auto& [key, text] : metric.label)
        if (key == label && text == label_value)
          return metric.counter.value + metric.gauge.value;
  return -1;
}

double conflicts(const SampleTable& table) {
  return value(table, "troupe_metrics_conflicts_total", "role", "exporter");
}

double dropped(const SampleTable& table, const std::string& reason) {
  return value(table, "troupe_metrics_dropped_total", "reason", reason);
}

} // namespace

BOOST_AUTO_TEST_CASE(two_roles_share_one_family_and_the_first_help_wins) {
  SampleTable table;
  table.publish("worker:0", {gauge("g", 1, {}, "first")});
  table.publish("worker:1", {gauge("g", 2, {}, "second")});
  BOOST_TEST(series(table, "g") == 2u);
  BOOST_TEST(family(table, "g")->help == "first");
  BOOST_TEST(value(table, "g", "role", "worker:0") == 1);
  BOOST_TEST(value(table, "g", "role", "worker:1") == 2);
}

BOOST_AUTO_TEST_CASE(a_publish_replaces_all_that_the_role_said_before) {
  SampleTable table;
  table.publish("worker:0", {gauge("g", 1), gauge("gone", 1)});
  table.publish("worker:0", {gauge("g", 3)});
  BOOST_TEST(series(table, "gone") == 0u);
  BOOST_TEST(value(table, "g", "role", "worker:0") == 3);
  table.publish("worker:0", {});
  BOOST_TEST(series(table, "g") == 0u);
}

BOOST_AUTO_TEST_CASE(an_attached_registry_is_read_at_each_scrape) {
  MetricRegistry registry;
  SampleTable table;
  table.attach("coordinator", registry);
  auto& steps = registry.counter("steps_total", "");
  BOOST_TEST(value(table, "steps_total", "role", "coordinator") == 0);
  steps.add(2);
  BOOST_TEST(value(table, "steps_total", "role", "coordinator") == 2);
}

BOOST_AUTO_TEST_CASE(of_two_kinds_the_first_wins_and_the_other_is_counted) {
  SampleTable table;
  table.publish("worker:0", {counter("x", 1)});
  table.publish("worker:1", {gauge("x", 2), gauge("y", 2)});
  BOOST_TEST((family(table, "x")->type == prometheus::MetricType::Counter));
  BOOST_TEST(series(table, "x") == 1u);
  BOOST_TEST(series(table, "y") == 1u);
  BOOST_TEST(conflicts(table) == 1);
}

BOOST_AUTO_TEST_CASE(no_role_can_take_the_name_of_the_conflict_counter) {
  SampleTable table;
  table.publish("worker:0", {gauge("troupe_metrics_conflicts_total", 7)});
  BOOST_TEST(conflicts(table) == 1);
}

BOOST_AUTO_TEST_CASE(malformed_histograms_are_dropped_and_counted) {
  SampleTable table;
  table.publish("worker:0", {histogram({1, 2}, {1, 2}),        // +Inf missing
                             histogram({2, 1}, {1, 2, 3}),     // falling
                             histogram({1, 2}, {3, 2, 1}),     // not a sum
                             histogram({1, NAN}, {1, 2, 3})}); // no number
  BOOST_TEST(series(table, "h") == 0u);
  BOOST_TEST(dropped(table, "malformed") == 4);
  table.publish("worker:0", {histogram({1, 2}, {1, 2, 3})});
  const auto buckets = family(table, "h")->metric.at(0).histogram.bucket;
  BOOST_REQUIRE_EQUAL(buckets.size(), 3u);
  BOOST_TEST(buckets[2].cumulative_count == 3u);
  BOOST_TEST(std::isinf(buckets[2].upper_bound));
}

BOOST_AUTO_TEST_CASE(equal_series_appear_once) {
  SampleTable table;
  // Different names, the same once they are valid.
  table.publish("worker:0", {gauge("a.b", 1), gauge("a-b", 2)});
  BOOST_TEST(series(table, "a_b") == 1u);
  BOOST_TEST(dropped(table, "duplicate") >= 1);
}

BOOST_AUTO_TEST_CASE(the_number_of_roles_is_bounded) {
  SampleTable table{{.roles = 2, .series = 100}};
  for (auto* role : {"worker:0", "worker:1", "worker:2"})
    table.publish(role, {gauge("g", 1)});
  BOOST_TEST(series(table, "g") == 2u);
  BOOST_TEST(dropped(table, "limit") == 1);
  table.publish("worker:0", {}); // its place is free again
  table.publish("worker:2", {gauge("g", 1)});
  BOOST_TEST(value(table, "g", "role", "worker:2") == 1);
}

BOOST_AUTO_TEST_CASE(the_number_of_series_is_bounded) {
  SampleTable table{{.roles = 10, .series = 3}};
  table.publish("worker:0", {gauge("g", 1), gauge("g", 1, {{"a", "b"}})});
  table.publish("worker:1", {gauge("g", 1), gauge("g", 1, {{"a", "b"}})});
  BOOST_TEST(series(table, "g") == 3u);
  table.publish("worker:0", {gauge("g", 1)}); // shrinks, so worker:1 fits
  table.publish("worker:1", {gauge("g", 1), gauge("g", 1, {{"a", "b"}})});
  BOOST_TEST(series(table, "g") == 3u);
  BOOST_TEST(dropped(table, "limit") == 1);
}

BOOST_AUTO_TEST_CASE(labels_of_our_own_move_the_samples_aside) {
  SampleTable table;
  auto sample = histogram({1}, {1, 1});
  sample.labels = {{"role", "mine"}, {"le", "x"}, {"__name__", "y"}};
  table.publish("worker:0", {sample});
  MetricLabels labels;
  const auto found = family(table, "h");
  for (auto& [name, text] : found->metric.at(0).label)
    labels.emplace(name, text);
  BOOST_TEST((labels
              == MetricLabels{{"_name__", "y"},
                              {"exported_le", "x"},
                              {"exported_role", "mine"},
                              {"role", "worker:0"}}));
}

BOOST_AUTO_TEST_CASE(text_that_would_spoil_a_scrape_is_made_valid) {
  BOOST_TEST(valid_utf8("gr\xC3\xBC\xC3\x9F \xF0\x9F\x99\x82")
             == "gr\xC3\xBC\xC3\x9F \xF0\x9F\x99\x82");
  BOOST_TEST(valid_utf8("a\xFFz\xC3") == "a?z?");
  BOOST_TEST(valid_utf8("\xC0\xAF") == "??");           // overlong
  BOOST_TEST(valid_utf8("\xED\xA0\x80") == "???");      // surrogate
  BOOST_TEST(valid_utf8("\xF4\x90\x80\x80") == "????"); // too large
  BOOST_TEST(valid_help("two\nlines \\d") == "two lines /d");
}

BOOST_AUTO_TEST_SUITE_END()
