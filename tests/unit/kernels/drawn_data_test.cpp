#include "kernels/data/clicks.hpp"
#include "kernels/data/markov_text.hpp"
#include "kernels/files/safetensors.hpp"
#include "kernels/numbers/auc.hpp"
#include "tests/unit/kernels/data_files.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <span>
#include <stdexcept>
#include <utility>

using namespace troupe::testing;
using troupe::ClicksOptions;

BOOST_AUTO_TEST_SUITE(drawn_data)

namespace {

template <class T>
std::string hash(const T* first, size_t count) {
  return troupe::sha256(std::as_bytes(std::span{first, count}));
}

} // namespace

BOOST_AUTO_TEST_CASE(clicks_are_pure_functions_of_seed_and_number) {
  const auto some = troupe::synthetic_clicks({100, 7, 1000});
  const auto more = troupe::synthetic_clicks({300, 7, 1000});
  const auto other = troupe::synthetic_clicks({100, 8, 1000});
  BOOST_TEST(std::equal(some.ids.begin(), some.ids.end(), more.ids.begin()));
  BOOST_TEST(
    std::equal(some.labels.begin(), some.labels.end(), more.labels.begin()));
  BOOST_TEST((some.ids != other.ids));
}

BOOST_AUTO_TEST_CASE(clicks_keep_their_bytes) {
  const auto set = *load("synthetic:clicks?samples=1000&seed=3").train;
  const auto& values = std::as_const(set.values);
  BOOST_TEST(
    hash(values.data(), values.size())
    == "2954a53b2fc854c6738f3d2543d73017b165b03d7f7b88d634b7a59e4f267c45");
  BOOST_TEST(
    hash(set.ids.data(), set.ids.size())
    == "d83b14cfc111493f5ee9837d82f831496adfee3d968c72cc272a1b2df89e1e57");
  BOOST_TEST(
    hash(set.labels.data(), set.labels.size())
    == "3b24b57a8b01316c9af83fd641ff21e4d4b3d3038c19d1d8c2cf59be11482c67");
}

BOOST_AUTO_TEST_CASE(clicks_have_criteo_s_shape) {
  const auto set = *load("synthetic:clicks?samples=2000&buckets=50").train;
  BOOST_TEST((set.shape.features == troupe::Shape{13}));
  BOOST_TEST(set.shape.ids == 26u);
  BOOST_TEST(set.shape.vocabulary == 1300u);
  BOOST_TEST((set.shape.label == troupe::LabelKind::binary));
  size_t absent = 0;
  for (size_t i = 0; i < set.ids.size(); ++i) {
    if (set.ids[i] < 0)
      ++absent;
    else
      BOOST_REQUIRE(set.ids[i] / 50 == static_cast<int32_t>(i % 26));
  }
  BOOST_TEST(absent > 2000u * 26 / 64 / 2);
  BOOST_TEST(absent < 2000u * 26 / 64 * 2);
  refuses_spec("synthetic:clicks?buckets=1", {"buckets"});
}

BOOST_AUTO_TEST_CASE(even_clicks_have_every_category_once_in_a_round) {
  const auto set =
    *load("synthetic:clicks?samples=700&buckets=700&spread=even").train;
  std::map<int32_t, int> seen;
  for (size_t i = 0; i < set.ids.size(); ++i)
    if (set.ids[i] >= 0) {
      BOOST_REQUIRE(set.ids[i] / 700 == static_cast<int32_t>(i % 26));
      ++seen[set.ids[i]];
    }
  BOOST_TEST(seen.size() > 700u * 26 * 31 / 32);
  for (const auto& [id, count] : seen)
    BOOST_REQUIRE(count == 1);
  // Scattered: neighbours are far from one another.
  BOOST_TEST(std::abs(set.ids[26] - set.ids[0]) > 1);
  refuses_spec("synthetic:clicks?spread=odd", {"spread"});
}

BOOST_AUTO_TEST_CASE(what_is_best_on_clicks_is_known) {
  const ClicksOptions options{20'000, 1, 1000};
  const auto auc = troupe::best_click_auc(options);
  const auto loss = troupe::best_click_loss(options);
  BOOST_TEST_MESSAGE("AUC " << auc << ", loss " << loss);
  BOOST_TEST(auc > 0.75);
  BOOST_TEST(auc < 0.95);
  const auto set = troupe::synthetic_clicks(options);
  double ones = 0;
  for (auto label : set.labels)
    ones += label;
  const auto rate = ones / 20'000;
  BOOST_TEST(rate > 0.1);
  BOOST_TEST(rate < 0.45);
  // Knowing the rate alone is worse.
  const auto ignorant = -rate * std::log(rate)
                        - (1 - rate) * std::log(1 - rate);
  BOOST_TEST(loss < ignorant - 0.05);
}

BOOST_AUTO_TEST_CASE(drawn_text_follows_its_rule) {
  const auto set = troupe::synthetic_text(200'000, 5);
  BOOST_TEST(set.shape.vocabulary == 27u);
  std::map<std::pair<int32_t, int32_t>, std::map<int32_t, double>> seen;
  for (size_t i = 2; i < set.tokens.size(); ++i)
    seen[{set.tokens[i - 2], set.tokens[i - 1]}][set.tokens[i]] += 1;
  // The entropy measured is the one that is announced.
  double nats = 0;
  double count = 0;
  for (const auto& [context, next] : seen) {
    BOOST_REQUIRE(next.size() <= 4u);
    double all = 0;
    for (const auto& [character, times] : next)
      all += times;
    for (const auto& [character, times] : next)
      nats -= times * std::log(times / all);
    count += all;
  }
  BOOST_TEST(seen.size() > 500u);
  BOOST_TEST(nats / count == troupe::best_text_loss(),
             boost::test_tools::tolerance(0.01));
  BOOST_TEST(troupe::best_text_loss() == 1.1803046,
             boost::test_tools::tolerance(1e-6));
}

BOOST_AUTO_TEST_CASE(drawn_text_keeps_its_bytes) {
  const auto set = *load("synthetic:text?samples=10000&seed=3").train;
  BOOST_TEST(
    hash(set.tokens.data(), set.tokens.size())
    == "db516c4690b9b068ccb5f587bb7201e72bcbad55ad49da13848297c4fd6bf242");
  const auto other = *load("synthetic:text?samples=10000&seed=4").train;
  BOOST_TEST((set.tokens != other.tokens));
}

BOOST_AUTO_TEST_CASE(rows_beyond_the_32nd_bit_are_drawn_when_they_are_wanted) {
  const std::string keys = "&ids=4&vocabulary=1000&seed=6";
  const auto held = *load("synthetic:rows?samples=100" + keys).train;
  BOOST_TEST(held.ids.size() == 400u);
  auto parts = load("synthetic:rows?samples=5368709120" + keys,
                    1.0 / (1 << 30));
  BOOST_TEST(parts.train->samples() == (uint64_t{5} << 30) - 5);
  BOOST_TEST(parts.eval->samples() == 5u);
  BOOST_TEST(parts.train->ids.empty());
  const auto graph = troupe::testing::graph_of(held.shape);
  troupe::BatchMemory held_rows{graph, 100};
  troupe::BatchMemory rows{graph, 100};
  std::vector<uint64_t> numbers(100);
  std::iota(numbers.begin(), numbers.end(), uint64_t{0});
  held.gather(numbers.data(), 100, held_rows);
  rows.labels()[99] = 1;
  parts.train->gather(numbers.data(), 100, rows);
  BOOST_TEST(std::equal(rows.ids(), rows.ids() + 400, held_rows.ids()));
  BOOST_TEST(rows.labels()[99] == 0);
  // The last samples of all are those that are held out.
  for (auto& number : numbers)
    number += (uint64_t{5} << 30) - 100;
  const auto all = *load("synthetic:rows?samples=5368709120" + keys).train;
  all.gather(numbers.data(), 100, rows);
  parts.eval->gather(std::vector<uint64_t>{0, 1, 2, 3, 4}.data(), 5, held_rows);
  BOOST_TEST(std::equal(rows.ids() + 380, rows.ids() + 400, held_rows.ids()));
  BOOST_TEST(!std::equal(rows.ids(), rows.ids() + 20, held_rows.ids()));
  BOOST_CHECK_THROW(parts.train->gather(&numbers[99], 1, rows),
                    std::logic_error);
}

BOOST_AUTO_TEST_CASE(samples_held_out_of_those_drawn_later_are_drawn_as_well) {
  // Just more than are held: the places of both parts are a list.
  const auto parts =
    troupe::load_data(troupe::parse_data_spec(
                        "synthetic:rows?samples=1100000&ids=128&eval_seed=3"),
                      {0.25, {}});
  BOOST_TEST(parts.train->ids.empty());
  BOOST_TEST(parts.train->samples() == 825'000u);
  BOOST_TEST(parts.eval->samples() == 275'000u);
  BOOST_TEST(parts.train->places.size() == 825'000u);
  const auto all = *load("synthetic:rows?samples=1100000&ids=128").train;
  const auto graph = troupe::testing::graph_of(all.shape);
  troupe::BatchMemory some{graph, 1};
  troupe::BatchMemory same{graph, 1};
  for (const uint64_t i : {0u, 7u, 274'999u}) {
    const auto place = parts.eval->place(i);
    parts.eval->gather(&i, 1, some);
    all.gather(&place, 1, same);
    BOOST_TEST(std::equal(some.ids(), some.ids() + 128, same.ids()));
  }
}

BOOST_AUTO_TEST_SUITE_END()
