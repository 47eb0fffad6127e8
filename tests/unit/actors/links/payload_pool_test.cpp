#include "actors/links/payload_pool.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(payload_pool)

BOOST_AUTO_TEST_CASE(a_block_that_was_given_back_is_taken_again) {
  PayloadPool pool{1 << 20};
  auto block = pool.take(3000);
  BOOST_TEST(block.size() >= 3000u);
  const auto* first = block.data();
  pool.give(std::move(block));
  BOOST_TEST(pool.idle_bytes() == 4096 * sizeof(float));
  BOOST_TEST(pool.take(100'000).data() != first);
  auto again = pool.take(2500);
  BOOST_TEST(again.data() == first);
  BOOST_TEST(pool.idle_bytes() == 0u);
}

BOOST_AUTO_TEST_CASE(what_is_idle_beyond_the_limit_is_freed) {
  PayloadPool pool{6000 * sizeof(float)};
  auto one = pool.take(4096);
  auto other = pool.take(4096);
  pool.give(std::move(one));
  pool.give(std::move(other));
  BOOST_TEST(pool.idle_bytes() == 4096 * sizeof(float));
}

BOOST_AUTO_TEST_SUITE_END()
