#include "kernels/base/buffer.hpp"

#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <new>
#include <utility>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(buffer_test)

BOOST_AUTO_TEST_CASE(a_buffer_starts_at_a_cache_line) {
  for (size_t count : {1, 15, 16, 17, 1023}) {
    Buffer buffer(count);
    BOOST_TEST(reinterpret_cast<uintptr_t>(buffer.data()) % 64 == 0u);
    BOOST_TEST(buffer.size() == count);
    buffer.fill(2.5f);
    for (auto value : buffer.span())
      BOOST_REQUIRE_EQUAL(value, 2.5f);
  }
}

BOOST_AUTO_TEST_CASE(a_moved_buffer_keeps_its_values_where_they_are) {
  Buffer first(3);
  first.fill(1.0f);
  auto* values = first.data();
  auto second = std::move(first);
  BOOST_TEST(second.data() == values);
  BOOST_TEST(second.size() == 3u);
}

BOOST_AUTO_TEST_CASE(an_empty_buffer_has_no_values) {
  BOOST_TEST(Buffer().size() == 0u);
  BOOST_TEST(Buffer(0).span().empty());
}

BOOST_AUTO_TEST_CASE(a_size_that_overflows_is_refused) {
  BOOST_CHECK_THROW(Buffer(SIZE_MAX / 2), std::bad_alloc);
}

BOOST_AUTO_TEST_SUITE_END()
