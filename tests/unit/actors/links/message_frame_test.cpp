#include "tests/unit/actors/links/link_pair.hpp"

#include <limits>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(message_frame)

BOOST_AUTO_TEST_CASE(every_message_comes_back_from_its_header) {
  const Fence fence{1, 2, 3};
  const float tiny = std::numeric_limits<float>::denorm_min();
  const auto values = numbered(5, 1);
  const std::vector<LinkMessage> all{
    Pull{fence, {RoleKind::worker, 7}, 9},   Pulled{fence, 9, 4, values},
    Push{fence, 9, {2, 6}, 4, values},       Push{fence, 9, {2, 6}, 4, {}},
    LeasePush{fence, 9, 4, 8, values, tiny},
  };
  for (const auto& sent : all) {
    const auto header = header_of(sent);
    const auto back = message_of(header, values_of(sent));
    BOOST_REQUIRE(back);
    BOOST_TEST(same(*back, sent));
    BOOST_TEST(back->index() == sent.index());
    BOOST_TEST(header.payload_bytes == values_of(sent).size() * sizeof(float));
  }
  auto push = std::get<LeasePush>(*message_of(header_of(all[4]), values));
  BOOST_TEST(push.scale.value == tiny);
  BOOST_TEST(push.lease == 9u);
  BOOST_TEST(push.pulled_version == 8u);
  BOOST_TEST(push.slice == 4u);
  BOOST_TEST((push.fence == fence));
  auto node = std::get<Push>(*message_of(header_of(all[2]), values)).node;
  BOOST_TEST(node.lo == 2u);
  BOOST_TEST(node.hi == 6u);
  auto pull = std::get<Pull>(*message_of(header_of(all[0]), {}));
  BOOST_TEST((pull.worker == RoleId{RoleKind::worker, 7}));
}

BOOST_AUTO_TEST_CASE(a_header_of_no_message_gives_none) {
  auto header = header_of(Pull{{1, 1, 1}, {RoleKind::worker, 7}, 9});
  header.group = 99; // no kind of role
  BOOST_TEST(!message_of(header, {}));
  header.group = 1;
  BOOST_TEST(message_of(header, {}).has_value());
  BOOST_TEST(!message_of(header, numbered(1, 1)));
  BOOST_TEST(!message_of(credit_header(5), {}));
  header.kind = FrameKind::sum;
  BOOST_TEST(!message_of(header, {}));
}

BOOST_AUTO_TEST_SUITE_END()
