#include "actors/role/epoch_gate.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(epoch_gate)

namespace {

Fence epoch(uint64_t number, uint64_t term = 1) {
  return {7, term, number};
}

} // namespace

// docs/reliability.md, 142930 and 160846: a copy of an activation, while the
// first one's group was being formed, formed a second group.
BOOST_AUTO_TEST_CASE(an_epoch_is_entered_once) {
  EpochGate gate;
  BOOST_TEST(!gate.enter(epoch(1))); // not proposed
  BOOST_TEST(gate.propose(epoch(1)));
  BOOST_TEST(!gate.enter(epoch(2)));
  BOOST_TEST(gate.enter(epoch(1)));
  BOOST_TEST(!gate.enter(epoch(1)));
  BOOST_TEST(gate.is_pending(epoch(1))); // who entered goes on
  BOOST_TEST(!gate.propose(epoch(1)));   // a copy, too
  BOOST_TEST(!gate.enter(epoch(1)));
  gate.open();
  BOOST_TEST(gate.is_active(epoch(1)));
  BOOST_TEST(!gate.enter(epoch(1)));
}

BOOST_AUTO_TEST_CASE(each_epoch_is_entered_and_none_that_is_over) {
  EpochGate gate;
  gate.propose(epoch(1));
  gate.enter(epoch(1)); // is overtaken before its peers are reached
  for (const auto& next : {epoch(2), epoch(1, 2)}) {
    BOOST_TEST(gate.propose(next));
    BOOST_TEST(!gate.enter(epoch(1)));
    BOOST_TEST(gate.enter(next));
    gate.open();
  }
  BOOST_TEST(!gate.propose(epoch(3)));
}

BOOST_AUTO_TEST_SUITE_END()
