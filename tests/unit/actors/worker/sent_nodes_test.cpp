#include "actors/worker/sent_nodes.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(sent_nodes)

BOOST_AUTO_TEST_CASE(what_owners_list_need_not_be_sent_again) {
  const std::vector<SliceState> held{{0, 4, 5, {{0, 2}}, 0, {}},
                                     {2, 5, 6, {}, 0, {}},
                                     {9, 5, 5, {{0, 4}}, 0, {}}};
  SentNodes there{3};
  there.begin_epoch(held);
  BOOST_TEST(there.has(0, 5, {0, 2}));
  BOOST_TEST(there.has(0, 5, {1, 2}));  // covered
  BOOST_TEST(!there.has(0, 5, {0, 4})); // only in part
  BOOST_TEST(!there.has(0, 5, {2, 3}));
  BOOST_TEST(!there.has(0, 6, {0, 2})); // of the step before
  BOOST_TEST(!there.has(1, 5, {0, 2})); // not listed
  BOOST_TEST(there.has(2, 5, {3, 4}));  // the step is done there
}

BOOST_AUTO_TEST_CASE(what_was_sent_is_there_until_the_next_epoch_or_step) {
  SentNodes there{2};
  there.begin_epoch({{0, 4, 5, {{0, 2}}, 0, {}}});
  there.sent(0, 5, {2, 3});
  there.sent(1, 5, {2, 3});
  BOOST_TEST(there.has(0, 5, {0, 2}));
  BOOST_TEST(there.has(0, 5, {2, 3}));
  BOOST_TEST(there.has(1, 5, {2, 3}));
  there.begin_epoch({{0, 4, 5, {{2, 3}}, 0, {}}});
  BOOST_TEST(there.has(0, 5, {2, 3}));
  BOOST_TEST(!there.has(1, 5, {2, 3})); // its owner may be another
  there.begin_step();
  BOOST_TEST(!there.has(0, 6, {2, 3}));
  there.sent(0, 6, {2, 3});
  BOOST_TEST(there.has(0, 6, {2, 3}));
}

BOOST_AUTO_TEST_SUITE_END()
