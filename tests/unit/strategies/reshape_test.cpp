#include "strategies/reshape.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(reshape)

namespace {

Reshape parsed(const std::string& text) {
  Reshape wish;
  std::string mistake;
  BOOST_TEST_REQUIRE(parse(text, wish, mistake), text << ": " << mistake);
  return wish;
}

std::string mistake_of(const std::string& text) {
  Reshape wish;
  std::string mistake;
  BOOST_TEST(!parse(text, wish, mistake));
  return mistake;
}

} // namespace

BOOST_AUTO_TEST_CASE(words_become_a_wish_and_words_again) {
  for (const char* text :
       {"shards add 2", "workers add 1", "shards remove ps:3",
        "workers remove worker:0", "rebalance", "move-slices ps:0 ps:12",
        "move-slices ps:1 ps:0 3,4,10"})
    BOOST_TEST(to_string(parsed(text)) == text);
  BOOST_TEST(parsed("shards add").count == 1u);
  BOOST_TEST(parsed("move-slices ps:1 ps:0 3,4").slices.size() == 2u);
}

BOOST_AUTO_TEST_CASE(each_mistake_says_what_is_expected) {
  for (const char* text :
       {"", "shards", "shards add 0", "shards add -1", "shards add many",
        "shards add 99999", "shards remove", "shards remove worker:0",
        "shards remove ps:", "workers remove ps:0", "workers remove worker:x",
        "rebalance now", "move-slices", "move-slices ps:0",
        "move-slices ps:0 worker:1", "move-slices ps:0 ps:1 a", "grow"})
    BOOST_TEST(!mistake_of(text).empty());
}

BOOST_AUTO_TEST_SUITE_END()
