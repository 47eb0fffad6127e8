#include "kernels/records/decode_time.hpp"
#include "tests/unit/kernels/data_files.hpp"

#include <chrono>
#include <thread>

using namespace troupe::testing;
using troupe::DecodeTimer;

BOOST_AUTO_TEST_SUITE(decode_time)

BOOST_AUTO_TEST_CASE(one_sample_in_16_stands_for_all) {
  std::thread{[] {
    BOOST_TEST(DecodeTimer::seconds() == 0);
    for (int i = 0; i < 64; ++i) {
      const DecodeTimer decodes;
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
    }
    const auto all = DecodeTimer::seconds();
    BOOST_TEST(all >= 0.064);
    for (int i = 0; i < 15; ++i) // behind the first of these, which counts
      const DecodeTimer decodes;
    BOOST_TEST(DecodeTimer::seconds() < all + 16 * 0.05);
    const auto before = DecodeTimer::seconds();
    {
      const DecodeTimer decodes{1};
      std::this_thread::sleep_for(std::chrono::milliseconds{2});
    }
    BOOST_TEST(DecodeTimer::seconds() >= before + 0.002);
  }}.join();
}

BOOST_AUTO_TEST_CASE(what_is_held_is_not_decoded_again) {
  const Folder folder;
  std::string text;
  for (int i = 0; i < 200; ++i)
    text += "{\"x\": [1, 2, 3], \"label\": " + std::to_string(i % 2) + "}\n";
  const auto path = folder.put("some.jsonl", text);
  for (const uint64_t memory : {uint64_t{1}, uint64_t{1} << 20}) {
    troupe::ReadLimits limits;
    limits.memory = memory;
    const auto set =
      *troupe::load_data(troupe::parse_data_spec("jsonl:" + path), {}, limits)
         .train;
    BOOST_TEST((set.in_files != nullptr) == (memory == 1));
    troupe::BatchMemory batch{graph_of(set.shape), 1};
    const auto before = DecodeTimer::seconds();
    for (uint64_t i = 0; i < 200; ++i)
      set.gather(&i, 1, batch);
    BOOST_TEST((DecodeTimer::seconds() > before) == (memory == 1));
  }
}

BOOST_AUTO_TEST_SUITE_END()
