#include "actors/job/data_fingerprint.hpp"
#include "tests/unit/actors/small_job.hpp"

#include <boost/test/unit_test.hpp>

#include <atomic>

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(data_fingerprint_of_a_job)

namespace {

/// Features in files: each is the number of its sample, and how often they were
/// read is counted.
class CountedSamples : public SampleSource {
public:
  void read(uint64_t sample, void* row, const SampleDraw&) const override {
    ++reads;
    auto* values = static_cast<float*>(row);
    for (int i = 0; i < 20; ++i)
      values[i] = static_cast<float>(sample) + static_cast<float>(i);
  }
  uint64_t stored_bytes(uint64_t) const override { return 80; }

  mutable std::atomic<uint64_t> reads{0};
};

std::string contents_of(const Dataset& data) {
  return data_contents(Job{small_job(), data}, data);
}

Dataset small_set() {
  return *small_data().train;
}

/// One feature of that sample is another.
Dataset changed_at(uint64_t sample) {
  auto data = small_set();
  Column<float> values;
  for (size_t i = 0; i < data.values.size(); ++i)
    values.push_back(i == sample * 20 + 7 ? 9.0f : data.values[i]);
  data.values = values;
  return data;
}

} // namespace

BOOST_AUTO_TEST_CASE(equal_data_have_equal_contents) {
  BOOST_TEST(contents_of(small_set()) == contents_of(small_set()));
}

BOOST_AUTO_TEST_CASE(one_sample_of_a_small_set_makes_others) {
  const auto own = contents_of(small_set());
  for (uint64_t sample : {0, 1, 63, 64, 333, 499})
    BOOST_TEST(contents_of(changed_at(sample)) != own);
  auto data = small_set();
  data.labels[251] = (data.labels[251] + 1) % 4;
  BOOST_TEST(contents_of(data) != own);
}

BOOST_AUTO_TEST_CASE(of_a_large_set_a_few_samples_are_read) {
  const auto source = std::make_shared<CountedSamples>();
  Dataset data;
  data.shape.features = {20};
  data.shape.classes = 4;
  data.in_files = source;
  data.labels.assign(1'000'000, 1);
  const Job job{small_job(), data};
  const auto own = data_contents(job, data);
  BOOST_TEST(source->reads == 64u);
  data.labels.assign(1'000'000, 2);
  BOOST_TEST(data_contents(job, data) != own);
}

BOOST_AUTO_TEST_SUITE_END()
