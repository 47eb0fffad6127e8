#include "kernels/data/clicks.hpp"

#include "kernels/data/criteo.hpp"
#include "kernels/files/free_memory.hpp"
#include "kernels/numbers/natural_log.hpp"
#include "kernels/numbers/random.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>

// Integers only: the same bytes on every machine. Log-odds are in 1/256,
// probabilities in 1/65536.

namespace troupe {

namespace {

using kernels::random_bits;
using kernels::stream_key;

constexpr uint64_t draws = 0x636c6963;   // streams: what a sample draws,
constexpr uint64_t effects = 0x65666665; // what its categories mean
constexpr uint32_t sloped_features = 6;
constexpr uint32_t paired_fields = 12;    // 0 with 1, 2 with 3, …
constexpr int32_t common_categories = 32; // of a field; the others say nothing
constexpr int32_t largest_effect = 160;
constexpr int32_t pair_effect = 224;
constexpr int32_t base_rate = -320;
constexpr uint64_t one_absent_in = 64;

/// 65536 / (1 + exp(-k / 4)), rounded.
constexpr std::array<int32_t, 37> logistic_table{
  32768, 36843, 40793, 44511, 47911, 50941, 53581, 55834, 57724, 59287,
  60565, 61598, 62428, 63090, 63615, 64030, 64357, 64614, 64816, 64974,
  65097, 65194, 65269, 65328, 65374, 65410, 65438, 65459, 65476, 65489,
  65500, 65508, 65514, 65519, 65523, 65526, 65528};

/// Between two entries on a straight line.
int32_t logistic(int32_t log_odds) {
  constexpr int32_t step = 64; // a quarter
  constexpr int32_t last = (static_cast<int32_t>(logistic_table.size()) - 1);
  const auto size = std::min(std::abs(log_odds), last * step - 1);
  const auto i = static_cast<size_t>(size / step);
  const auto low = logistic_table[i];
  const auto value = low + (logistic_table[i + 1] - low) * (size % step) / step;
  return log_odds < 0 ? 65536 - value : value;
}

struct Drawn {
  std::array<float, click_numbers> features;
  std::array<int32_t, click_categories> ids; ///< of the field; -1: absent
  int32_t log_odds;
  int32_t label;
};

/// Numbers of one sample, one after another.
class Draws {
public:
  Draws(uint64_t seed, uint64_t sample)
    : key_(stream_key(stream_key(seed, draws), sample)) {}
  uint64_t bits() { return random_bits(key_, next_++); }

private:
  uint64_t key_;
  uint64_t next_ = 0;
};

/// What a category means: the same whatever the seed.
uint64_t meaning(uint64_t stream, uint64_t field, uint64_t category) {
  return random_bits(stream_key(stream, field), category);
}

/// Few categories are common, most rare: eighth power of a uniform number.
int32_t draw_category(uint64_t bits, uint64_t buckets) {
  auto u = bits >> 32;
  for (int i = 0; i < 3; ++i)
    u = u * u >> 32;
  return static_cast<int32_t>(u * buckets >> 32);
}

/// All categories one after another, by a stride that shares no factor with
/// any number of them.
int32_t even_category(uint64_t sample, uint64_t field, uint64_t buckets) {
  constexpr uint64_t stride = 2'654'435'761; // a prime
  return static_cast<int32_t>((sample % buckets * stride + field * 7919)
                              % buckets);
}

Drawn draw(const ClicksOptions& options, uint64_t sample) {
  Draws draws{options.seed, sample};
  Drawn result{};
  auto sum = base_rate;
  for (uint32_t k = 0; k < click_numbers; ++k) {
    const auto bits = draws.bits();
    // The sum of two uniform numbers below 2.
    const auto x = static_cast<int32_t>((bits & 511) + (bits >> 9 & 511));
    result.features[k] = static_cast<float>(x) / 256.0f;
    const auto slope = static_cast<int32_t>(40 + 10 * k)
                       * (k % 2 == 0 ? 1 : -1);
    if (k < sloped_features)
      sum += slope * (x - 511) / 256;
  }
  int32_t sign = 0;
  for (uint32_t f = 0; f < click_categories; ++f) {
    const auto bits = draws.bits();
    const bool absent = bits % one_absent_in == 0;
    const auto category = options.even
                            ? even_category(sample, f, options.buckets)
                            : draw_category(bits, options.buckets);
    result.ids[f] = absent ? -1 : category;
    const auto what = meaning(effects, f, static_cast<uint64_t>(category));
    const bool silent = absent || category >= common_categories;
    const auto own_sign = silent ? 0 : (what >> 63) != 0 ? 1 : -1;
    if (!silent)
      sum += static_cast<int32_t>((what & 0xffff) % (2 * largest_effect + 1))
             - largest_effect;
    if (f % 2 == 0)
      sign = own_sign;
    else if (f < paired_fields)
      sum += pair_effect * sign * own_sign;
  }
  result.log_odds = sum;
  const auto lot = static_cast<int32_t>(draws.bits() >> 48);
  result.label = lot < logistic(sum) ? 1 : 0;
  return result;
}

std::vector<int32_t> all_log_odds(const ClicksOptions& options) {
  std::vector<int32_t> result(options.samples);
  for (uint64_t i = 0; i < options.samples; ++i)
    result[i] = draw(options, i).log_odds;
  return result;
}

} // namespace

Dataset synthetic_clicks(const ClicksOptions& options) {
  Dataset result;
  result.name = "synthetic:clicks";
  result.shape.features = {click_numbers};
  result.shape.ids = click_categories;
  result.shape.vocabulary =
    static_cast<uint32_t>(click_categories * options.buckets);
  result.shape.label = LabelKind::binary;
  std::vector<float> values;
  make_room(values, options.samples * click_numbers, result.name);
  make_room(result.ids, options.samples * click_categories, result.name);
  result.labels.reserve(options.samples);
  for (uint64_t i = 0; i < options.samples; ++i) {
    const auto drawn = draw(options, i);
    values.insert(values.end(), drawn.features.begin(), drawn.features.end());
    for (uint32_t f = 0; f < click_categories; ++f) {
      const auto first = static_cast<int32_t>(f * options.buckets);
      result.ids.push_back(drawn.ids[f] < 0 ? -1 : first + drawn.ids[f]);
    }
    result.labels.push_back(drawn.label);
  }
  result.values = std::move(values);
  return result;
}

double best_click_auc(const ClicksOptions& options) {
  auto odds = all_log_odds(options);
  std::sort(odds.begin(), odds.end());
  // Expected ones and zeros below, and pairs in order; ties count half.
  double ones = 0;
  double zeros = 0;
  double ordered = 0;
  for (size_t i = 0; i < odds.size();) {
    const auto p = logistic(odds[i]) / 65536.0;
    double tied = 0;
    for (const auto value = odds[i]; i < odds.size() && odds[i] == value; ++i)
      ++tied;
    ordered += tied * p * (zeros + tied * (1 - p) / 2);
    zeros += tied * (1 - p);
    ones += tied * p;
  }
  return ordered / (ones * zeros);
}

double best_click_loss(const ClicksOptions& options) {
  using kernels::natural_log;
  double sum = 0;
  for (auto odds : all_log_odds(options)) {
    const auto p = logistic(odds) / 65536.0;
    sum -= p * natural_log(p) + (1 - p) * natural_log(1 - p);
  }
  return sum / static_cast<double>(options.samples);
}

} // namespace troupe
