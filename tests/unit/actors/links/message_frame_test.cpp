#include "tests/unit/actors/links/link_pair.hpp"

#include <limits>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(message_frame)

BOOST_AUTO_TEST_CASE(every_message_comes_back_from_its_header) {
  const Fence fence{1, 2, 3};
  const float tiny = std::numeric_limits<float>::denorm_min();
  const auto values = numbered(5, 1);
  const std::vector<LinkMessage> all{
    Pull{fence, {RoleKind::worker, 7}, 9},
    Pulled{fence, 9, 4, values},
    Push{fence, 9, {2, 6}, 4, values},
    Push{fence, 9, {2, 6}, 4, {}},
    LeasePush{fence, 9, 4, 8, values, tiny},
    BlockSums{fence, 9, 1, 4, {5e-324, 2}},
    Scalars{fence, 9, 1, {tiny}},
    ChainJoin{fence, {RoleKind::shard, 2}, 4, true, 9, 8},
    SliceCopy{fence, 4, 9, 1, 3, true, values},
    SliceCopy{fence, 4, 9, 0, 0, false, {}},
    ChainUpdate{fence, 4, 9, 8, true, tiny, 2, 3, 7, values},
    ChainScalars{fence, 9, 1, {tiny, 3}},
    ScalarsHeld{fence, 9, 1},
    AskShares{fence},
    StepShares{fence, 9, {{0, 2}, {3, 4}}},
    Pull{fence, {RoleKind::stage, 7}, 9, 4},
    Pull{fence, {RoleKind::tensor, 3}, 9, 4},
    RowPull{fence, {RoleKind::worker, 7}, 9, 4, values},
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
  auto rows = std::get<RowPull>(*message_of(header_of(all.back()), values));
  BOOST_TEST((rows.worker == RoleId{RoleKind::worker, 7}));
  BOOST_TEST(rows.version == 9u);
  BOOST_TEST(rows.slice == 4u);
  auto pull = std::get<Pull>(*message_of(header_of(all[0]), {}));
  BOOST_TEST((pull.worker == RoleId{RoleKind::worker, 7}));
  BOOST_TEST(pull.slice == Pull::every_slice);
  pull.slice = 3;
  BOOST_TEST(std::get<Pull>(*message_of(header_of(pull), {})).slice == 3u);
}

BOOST_AUTO_TEST_CASE(what_shards_say_comes_back_field_by_field) {
  const Fence fence{1, 2, 3};
  const float tiny = std::numeric_limits<float>::denorm_min();
  const auto there_and_back = [](const LinkMessage& sent) {
    return *message_of(header_of(sent), values_of(sent));
  };
  const auto sums =
    std::get<BlockSums>(there_and_back(BlockSums{fence, 9, 1, 4, {5e-324, 2}}));
  BOOST_TEST(sums.round == 1u);
  BOOST_TEST(sums.slice == 4u);
  BOOST_TEST(sums.sums[0].value == 5e-324);
  const auto join = std::get<ChainJoin>(
    there_and_back(ChainJoin{fence, {RoleKind::shard, 2}, 4, true, 9, 8}));
  BOOST_TEST((join.follower == RoleId{RoleKind::shard, 2}));
  BOOST_TEST(join.whole);
  BOOST_TEST(join.version == 9u);
  BOOST_TEST(join.epoch == 8u);
  const auto copy = std::get<SliceCopy>(
    there_and_back(SliceCopy{fence, 4, 9, 1, 3, true, numbered(5, 1)}));
  BOOST_TEST(copy.slice == 4u);
  BOOST_TEST(copy.version == 9u);
  BOOST_TEST(copy.part == 1u);
  BOOST_TEST(copy.parts == 3u);
  BOOST_TEST(copy.more);
  const auto update = std::get<ChainUpdate>(there_and_back(
    ChainUpdate{fence, 4, 9, 8, true, tiny, 2, 3, 7, numbered(5, 1)}));
  BOOST_TEST(update.slice == 4u);
  BOOST_TEST(update.number == 9u);
  BOOST_TEST(update.lease == 8u);
  BOOST_TEST(update.again);
  BOOST_TEST(update.gradient_scale.value == tiny);
  BOOST_TEST(update.trust_ratio.value == 2);
  BOOST_TEST(update.rate_scale.value == 3);
  BOOST_TEST(update.samples == 7u);
  const auto shares = std::get<StepShares>(
    there_and_back(StepShares{fence, 9, {{0, 2}, {3, 4}}}));
  BOOST_TEST(shares.step == 9u);
  BOOST_TEST((shares.shares[1] == RankRange{3, 4}));
  const auto scalars =
    std::get<ChainScalars>(there_and_back(ChainScalars{fence, 9, 1, {tiny}}));
  BOOST_TEST(scalars.step == 9u);
  BOOST_TEST(scalars.round == 1u);
  BOOST_TEST(scalars.values[0].value == tiny);
  BOOST_TEST(
    std::get<ScalarsHeld>(there_and_back(ScalarsHeld{fence, 9, 1})).round
    == 1u);
}

BOOST_AUTO_TEST_CASE(a_header_of_no_message_gives_none) {
  auto header = header_of(Pull{{1, 1, 1}, {RoleKind::worker, 7}, 9});
  header.group = 99; // no kind of role
  BOOST_TEST(!message_of(header, {}));
  for (auto group :
       {1u << 8, 1u + (1u << 8)}) { // more than a kind has room for
    header.group = group;
    BOOST_TEST(!message_of(header, {}));
  }
  for (auto kind : {RoleKind::coordinator, RoleKind::shard, RoleKind::evaluator,
                    RoleKind::reader}) { // they pull no parameters
    header.group = static_cast<uint32_t>(kind);
    BOOST_TEST(!message_of(header, {}));
  }
  header.group = 1;
  BOOST_TEST(message_of(header, {}).has_value());
  BOOST_TEST(!message_of(header, numbered(1, 1)));
  BOOST_TEST(!message_of(credit_header(5), {}));
  auto rows = header_of(RowPull{{1, 1, 1}, {RoleKind::worker, 7}, 9, 4, {}});
  rows.group = static_cast<uint32_t>(RoleKind::shard);
  BOOST_TEST(!message_of(rows, {}));
  header.kind = FrameKind::sum;
  BOOST_TEST(!message_of(header, {}));
}

BOOST_AUTO_TEST_SUITE_END()
