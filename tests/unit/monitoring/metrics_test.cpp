#include "monitoring/all_metrics.hpp"
#include "monitoring/metrics.hpp"

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <limits>
#include <set>
#include <stdexcept>
#include <thread>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(metrics_test)

namespace {

const MetricSample& only(const std::vector<MetricSample>& samples) {
  BOOST_REQUIRE_EQUAL(samples.size(), 1u);
  return samples.front();
}

constexpr auto not_a_number = std::numeric_limits<double>::quiet_NaN();

} // namespace

BOOST_AUTO_TEST_CASE(the_same_name_and_labels_give_the_same_object) {
  MetricRegistry registry;
  auto& first = registry.counter("a_total", "help", {{"kind", "x"}});
  auto& other = registry.counter("a_total", "help", {{"kind", "y"}});
  for (int i = 0; i < 100; ++i) // references survive growth
    registry.counter("b_total", "help", {{"i", std::to_string(i)}});
  BOOST_TEST(&first
             == &registry.counter("a_total", "another", {{"kind", "x"}}));
  BOOST_TEST(&first != &other);
}

BOOST_AUTO_TEST_CASE(a_collected_sample_carries_name_help_labels_and_value) {
  MetricRegistry registry;
  registry.gauge("a", "what it says", {{"kind", "x"}}).set(-2.5);
  const auto sample = only(registry.collect());
  BOOST_TEST((sample.kind == MetricSample::Kind::gauge));
  BOOST_TEST(sample.name == "a");
  BOOST_TEST(sample.help == "what it says");
  BOOST_TEST((sample.labels == MetricLabels{{"kind", "x"}}));
  BOOST_TEST(sample.value == -2.5);
}

BOOST_AUTO_TEST_CASE(a_shared_gauge_shows_the_largest_share) {
  constexpr MetricDescription metric{MetricSample::Kind::gauge, "a", ""};
  MetricRegistry registry;
  const auto shown = [&] { return only(registry.collect()).value; };
  auto one = registry.largest(metric);
  auto other = registry.largest(metric);
  BOOST_TEST(shown() == 0);
  one->set(3);
  other->set(0); // the last to speak is not the only one who is heard
  BOOST_TEST(shown() == 3);
  other->set(5);
  BOOST_TEST(shown() == 5);
  other.reset();
  BOOST_TEST(shown() == 3);
  one->set(0);
  BOOST_TEST(shown() == 0);
}

BOOST_AUTO_TEST_CASE(a_counter_never_falls) {
  MetricRegistry registry;
  auto& counter = registry.counter("a_total", "");
  counter.add();
  counter.add(2.5);
  counter.add(-1);
  counter.add(not_a_number);
  const auto sample = only(registry.collect());
  BOOST_TEST((sample.kind == MetricSample::Kind::counter));
  BOOST_TEST(sample.value == 3.5);
}

BOOST_AUTO_TEST_CASE(a_histogram_counts_cumulatively_up_to_its_bounds) {
  MetricRegistry registry;
  auto& histogram = registry.histogram("a", "", {}, {1, 2, 4});
  for (double value : {0.5, 1.0, 1.5, 4.0, 5.0, not_a_number})
    histogram.observe(value);
  const auto sample = only(registry.collect());
  BOOST_TEST((sample.kind == MetricSample::Kind::histogram));
  BOOST_TEST((sample.bounds == std::vector<double>{1, 2, 4}));
  BOOST_TEST((sample.cumulative == std::vector<uint64_t>{2, 3, 4, 5}));
  BOOST_TEST(sample.sum == 12.0);
}

BOOST_AUTO_TEST_CASE(time_histograms_reach_from_100_us_to_30_s) {
  MetricRegistry registry;
  registry.histogram("a_seconds", "");
  const auto sample = only(registry.collect());
  BOOST_TEST(sample.bounds.front() == 1e-4);
  BOOST_TEST(sample.bounds.back() == 30.0);
  BOOST_TEST(sample.cumulative.size() == sample.bounds.size() + 1);
}

BOOST_AUTO_TEST_CASE(misuse_is_refused_and_names_the_metric) {
  MetricRegistry registry;
  registry.counter("a_total", "");
  auto names_it = [](const std::invalid_argument& error) {
    return std::string{error.what()}.find("a_total") != std::string::npos;
  };
  BOOST_CHECK_EXCEPTION(registry.gauge("a_total", ""), std::invalid_argument,
                        names_it);
  BOOST_CHECK_EXCEPTION(registry.histogram("a_total", "", {}, {2, 1}),
                        std::invalid_argument, names_it);
  BOOST_CHECK_EXCEPTION(registry.histogram("a_total", "", {}, {1, INFINITY}),
                        std::invalid_argument, names_it);
  BOOST_CHECK_THROW(registry.gauge(metrics::steps_committed_total),
                    std::invalid_argument);
}

BOOST_AUTO_TEST_CASE(names_from_elsewhere_become_valid) {
  BOOST_TEST(metric_name("caf.system.running-actors")
             == "caf_system_running_actors");
  BOOST_TEST(metric_name("0x") == "_0x");
  BOOST_TEST(metric_name("") == "_");
  MetricRegistry registry;
  registry.gauge("caf.a-b", "", {{"actor-type", "x"}});
  const auto sample = only(registry.collect());
  BOOST_TEST(sample.name == "caf_a_b");
  BOOST_TEST((sample.labels == MetricLabels{{"actor_type", "x"}}));
}

BOOST_AUTO_TEST_CASE(no_update_of_two_threads_is_lost) {
  MetricRegistry registry;
  auto work = [&] {
    for (int i = 0; i < 10'000; ++i) {
      registry.counter("a_total", "").add();
      if (i % 1000 == 0)
        registry.collect();
    }
  };
  std::thread other{work};
  work();
  other.join();
  BOOST_TEST(only(registry.collect()).value == 20'000.0);
}

BOOST_AUTO_TEST_CASE(listed_metrics_follow_the_conventions) {
  std::set<std::string> names;
  for (auto& metric : metrics::all) {
    const std::string name = metric.name;
    BOOST_TEST_CONTEXT(name) {
      BOOST_TEST(names.insert(name).second);
      const bool known = name.starts_with("troupe_")
                         || name.starts_with("process_");
      BOOST_TEST(known);
      BOOST_TEST(metric_name(name) == name);
      BOOST_TEST(std::string{metric.help}.ends_with("."));
      BOOST_TEST(name.ends_with("_total")
                 == (metric.kind == MetricSample::Kind::counter));
      BOOST_TEST((metric.bounds.empty()
                  || metric.kind == MetricSample::Kind::histogram));
    }
  }
}

BOOST_AUTO_TEST_CASE(every_listed_metric_can_be_registered) {
  MetricRegistry registry;
  for (auto& metric : metrics::all) {
    switch (metric.kind) {
      case MetricSample::Kind::counter:
        registry.counter(metric).add();
        break;
      case MetricSample::Kind::gauge:
        registry.gauge(metric).set(1);
        break;
      case MetricSample::Kind::histogram:
        registry.histogram(metric).observe(1);
    }
  }
  BOOST_TEST(registry.collect().size() == metrics::all.size());
  for (auto& sample : registry.collect())
    if (sample.name == metrics::push_staleness_steps.name)
      BOOST_TEST((sample.bounds
                  == std::vector<double>{0, 1, 2, 3, 4, 6, 8, 12, 16, 32, 64}));
}

BOOST_AUTO_TEST_SUITE_END()
