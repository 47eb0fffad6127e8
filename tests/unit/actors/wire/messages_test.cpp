#include "actors/control/actor_node.hpp"
#include "actors/wire/messages.hpp"

#include <boost/test/unit_test.hpp>

#include <limits>

using namespace troupe;

namespace messages {
namespace {

struct Bench {
  Bench() : config(Credentials{}), system(config) {}

  template <class Message>
  Message round_trip(const Message& sent) {
    caf::byte_buffer bytes;
    caf::binary_serializer sink{system, bytes};
    BOOST_REQUIRE(sink.apply(sent));
    caf::binary_deserializer source{system, bytes};
    Message received;
    BOOST_REQUIRE(source.apply(received));
    BOOST_TEST(source.remaining() == 0u);
    caf::byte_buffer again;
    caf::binary_serializer second{system, again};
    BOOST_REQUIRE(second.apply(received));
    BOOST_TEST((again == bytes));
    return received;
  }

  ActorConfig config;
  caf::actor_system system;
};

TensorView tensor(std::vector<float> values) {
  return TensorView::copy(values);
}

const Fence fence{1, 2, 3};
const RoleId worker_1{RoleKind::worker, 1};

} // namespace
} // namespace messages

BOOST_FIXTURE_TEST_SUITE(messages, Bench)

BOOST_AUTO_TEST_CASE(what_a_role_is_told_that_was_left_out_arrives) {
  BOOST_TEST(round_trip(Hello{worker_1, 1, true, 4}).incarnation == 4u);
  const auto info = round_trip(JobInfo{1,
                                       2,
                                       "{}",
                                       3,
                                       "silent",
                                       true,
                                       true,
                                       3'000,
                                       {{{RoleKind::shard, 4}, "there"}},
                                       7,
                                       {{"worker:1", 9}},
                                       1'250});
  BOOST_TEST(info.left_out == "silent");
  BOOST_TEST(info.over);
  BOOST_TEST(info.supervised);
  BOOST_TEST(info.loss_ms == 3'000u);
  BOOST_TEST((info.probe.at(0).role == RoleId{RoleKind::shard, 4}));
  BOOST_TEST(info.probe.at(0).links == "there");
  BOOST_TEST(info.wait_ms == 7u);
  BOOST_TEST(info.sign_ms == 1'250u);
  JobInfo refused;
  refused.refused = "it is one too many";
  BOOST_TEST(round_trip(refused).refused == "it is one too many");
  BOOST_TEST(round_trip(Readmit{1, 9}).incarnation == 9u);
}

BOOST_AUTO_TEST_CASE(who_says_so_arrives_with_its_process) {
  BOOST_TEST(round_trip(Hello{worker_1, 1, false, 0, "h", 9}).host == "h");
  BOOST_TEST(round_trip(Hello{worker_1, 1, false, 0, "h", 9}).process == 9u);
  const Join named{1, worker_1, 2, "h:1", "b", "p", "l", "h", 9, "d"};
  BOOST_TEST(round_trip(named).host == "h");
  BOOST_TEST(round_trip(named).process == 9u);
  BOOST_TEST(round_trip(named).data == "d");
}

BOOST_AUTO_TEST_CASE(every_wire_type_of_an_epoch_arrives_as_it_was_sent) {
  BOOST_TEST(round_trip(Hello{worker_1}).role.index == 1u);
  BOOST_TEST(round_trip(Hello{worker_1, 1, true}).again);
  BOOST_TEST(round_trip(JobInfo{1, 2, "{}"}).options == "{}");
  BOOST_TEST(round_trip(JobInfo{1, 2, "{}", 3}).term == 3u);
  BOOST_TEST(round_trip(Join{1, worker_1, 2, "h:1", "b", "p", "l"}).probe
             == "p");
  BOOST_TEST(round_trip(Join{1, worker_1, 2, "h:1", "b", "p", "l"}).links
             == "l");
  BOOST_TEST(round_trip(Propose{fence}).fence.epoch == 3u);
  const SliceState state{4, 5, 6, {{0, 2}, {2, 3}}, 7, {9, 11}, 12};
  BOOST_TEST(round_trip(Sealed{fence, worker_1, 8, {state}}).slices[0].epoch
             == 12u);
  BOOST_TEST(
    round_trip(Sealed{fence, worker_1, 8, {state}}).slices[0].held[1].hi == 3u);
  BOOST_TEST(round_trip(Sealed{fence, worker_1, 8, {}, 12}).version == 12u);
  BOOST_TEST(round_trip(LinkLost{fence, worker_1, "cut"}).reason == "cut");
  BOOST_TEST((round_trip(LinkLost{fence, worker_1, "cut", {worker_1}}).peers
              == std::vector{worker_1}));
  const SliceChain chain{4, {1, 3}, {5}};
  const auto chains =
    round_trip(Activate{fence, {}, 5, false, {}, true, 2, {chain}}).chains;
  BOOST_TEST(chains[0].slice == 4u);
  BOOST_TEST(chains[0].replicas[1] == 3u);
  BOOST_TEST(chains[0].learners[0] == 5u);
  BOOST_TEST(round_trip(CaughtUp{fence, worker_1}).role.index == 1u);
  BOOST_TEST(round_trip(LeaseRefused{fence, worker_1, 9}).lease == 9u);
  const Consistency consistency{true, 3, 2, 7, 19};
  BOOST_TEST(
    (round_trip(Propose{fence, consistency}).consistency == consistency));
  BOOST_TEST((round_trip(consistency) == consistency));
  BOOST_TEST(round_trip(AskShares{fence}).fence.epoch == fence.epoch);
  BOOST_TEST(round_trip(StepShares{fence, 4, {{1, 3}}}).shares[0].hi == 3u);
  BOOST_TEST(round_trip(SwitchConsistency{"async"}).mode == "async");
  const auto fault = round_trip(InjectFault{
    {RoleKind::shard, 2}, "forward,copy", 3, 500, FaultKind::stop, 250});
  BOOST_TEST((fault.role == RoleId{RoleKind::shard, 2}));
  BOOST_TEST(fault.phases == "forward,copy");
  BOOST_TEST(fault.after == 3u);
  BOOST_TEST(fault.deadline_ms == 500u);
  BOOST_TEST((fault.kind == FaultKind::stop));
  BOOST_TEST(fault.amount == 250u);
  const auto armed =
    round_trip(ArmFault{9, StepPhase::seal, 1, FaultKind::cut, 7});
  BOOST_TEST((armed.kind == FaultKind::cut));
  BOOST_TEST(armed.amount == 7u);
  const auto struck = round_trip(FaultStruck{9, worker_1, StepPhase::push});
  BOOST_TEST((struck.phase == StepPhase::push));
  BOOST_TEST(armed.job == 9u);
  BOOST_TEST((armed.phase == StepPhase::seal));
  BOOST_TEST(armed.after == 1u);
  BOOST_TEST(round_trip(ReshapeJob{"rebalance"}).what == "rebalance");
  const auto leave = round_trip(LeaveRequest{7, worker_1, "terminated"});
  BOOST_TEST(leave.job == 7u);
  BOOST_CHECK(leave.role == worker_1);
  BOOST_TEST(leave.why == "terminated");
  BOOST_TEST(round_trip(StartRole{worker_1}).role.index == 1u);
  BOOST_TEST(round_trip(RetireRole{worker_1}).role.index == 1u);
  BOOST_TEST(round_trip(EpochPause{fence, worker_1, 0.25}).seconds == 0.25);
  BOOST_TEST(
    round_trip(Activate{fence, {}, 5, false, {}, true, 2}).synchronise);
  BOOST_TEST(round_trip(Activate{fence, {}, 5, false, {}, true, 2}).source
             == 2u);
  const Member member{worker_1, "h:1", "l"};
  BOOST_TEST(round_trip(Activate{fence, {member}, 5, true, {state}}).rollback);
  BOOST_TEST(round_trip(Activate{fence, {member}, 5, true, {}}).members[0].links
             == "l");
}

BOOST_AUTO_TEST_CASE(every_wire_type_of_a_chain_arrives_as_it_was_sent) {
  const RoleId shard_2{RoleKind::shard, 2};
  const auto join = round_trip(ChainJoin{fence, shard_2, 4, true, 5, 6});
  BOOST_TEST((join.follower == shard_2));
  BOOST_TEST(join.whole);
  BOOST_TEST(join.version == 5u);
  BOOST_TEST(join.epoch == 6u);
  const auto copy = round_trip(SliceCopy{fence, 4, 5, 1, 2, true, tensor({7})});
  BOOST_TEST(copy.slice == 4u);
  BOOST_TEST(copy.version == 5u);
  BOOST_TEST(copy.part == 1u);
  BOOST_TEST(copy.parts == 2u);
  BOOST_TEST(copy.more);
  BOOST_TEST(copy.values.data()[0] == 7);
  const float tiny = std::numeric_limits<float>::denorm_min();
  const auto update =
    round_trip(ChainUpdate{fence, 4, 5, 6, true, tiny, 2, 3, 8, tensor({7})});
  BOOST_TEST(update.number == 5u);
  BOOST_TEST(update.lease == 6u);
  BOOST_TEST(update.again);
  BOOST_TEST(update.gradient_scale.value == tiny);
  BOOST_TEST(update.trust_ratio.value == 2);
  BOOST_TEST(update.rate_scale.value == 3);
  BOOST_TEST(update.samples == 8u);
  BOOST_TEST(update.values.size() == 1u);
  BOOST_TEST(round_trip(ChainScalars{fence, 4, 1, {tiny}}).values[0].value
             == tiny);
  BOOST_TEST(round_trip(ScalarsHeld{fence, 4, 1}).round == 1u);
}

BOOST_AUTO_TEST_CASE(every_wire_type_of_a_step_arrives_as_it_was_sent) {
  BOOST_TEST(round_trip(Pull{fence, worker_1, 9}).version == 9u);
  BOOST_TEST(round_trip(Pull{fence, worker_1, 9, 4}).slice == 4u);
  BOOST_TEST(round_trip(Pulled{fence, 9, 1, tensor({1, 2})}).values.size()
             == 2u);
  BOOST_TEST(round_trip(Push{fence, 9, {0, 4}, 1, tensor({3})}).node.hi == 4u);
  BOOST_TEST(round_trip(LeasePush{fence, 9, 1, 8, {}}).values.size() == 0u);
  const float tiny = std::numeric_limits<float>::denorm_min();
  BOOST_TEST(round_trip(LeasePush{fence, 9, 1, 8, {}, tiny}).scale.value
             == tiny);
  const double infinite = std::numeric_limits<double>::infinity();
  auto sums = round_trip(BlockSums{fence, 9, 1, 2, {5e-324, infinite}}).sums;
  BOOST_TEST(sums[0].value == 5e-324);
  BOOST_TEST(sums[1].value == infinite);
  BOOST_TEST(round_trip(Scalars{fence, 9, 1, {0.5f, tiny}}).values[1].value
             == tiny);
  BOOST_TEST(round_trip(LeafReport{fence, worker_1, 9, {{1, 0.5, 16}}})
               .leaves[0]
               .loss_sum
             == 0.5);
  BOOST_TEST(
    round_trip(LeafReport{fence, worker_1, 9, {}, 0, true}).computed_twice);
  BOOST_TEST(round_trip(Applied{fence, worker_1, 9, 4}).duplicates == 4u);
  BOOST_TEST(round_trip(LeaseRequest{fence, worker_1, 8}).count == 8u);
  BOOST_TEST(round_trip(LeaseGrant{fence, {1, 2, 3}}).leases.size() == 3u);
  BOOST_TEST(round_trip(LeaseApplied{fence, worker_1, 9, 0}).lease == 9u);
  BOOST_TEST(
    round_trip(RowSnapshot{1, 2, 3, 0, 1, 9, tensor({1, 2})}).rows.size()
    == 2u);
  BOOST_TEST(round_trip(SnapshotTaken{1, 2, 3, 4}).part == 4u);
  const auto wanted =
    round_trip(RowsWanted{fence, worker_1, 9, 3, tensor({1, 2})});
  BOOST_TEST((wanted.worker == worker_1));
  BOOST_TEST(wanted.request == 9u);
  BOOST_TEST(wanted.data_epoch == 3u);
  BOOST_TEST(wanted.samples.size() == 2u);
  const auto served = round_trip(RowsServed{fence, 9, 5, tensor({1, 2})});
  BOOST_TEST(served.request == 9u);
  BOOST_TEST(served.begin == 5u);
  BOOST_TEST(served.values.size() == 2u);
  const auto crossed = round_trip(
    StageValues{fence, 9, 5, StageStream::backward, 7, tensor({1, 2})});
  BOOST_TEST(crossed.virtual_rank == 5u);
  BOOST_TEST((crossed.stream == StageStream::backward));
  BOOST_TEST(crossed.begin == 7u);
  BOOST_TEST(crossed.values.size() == 2u);
  for (auto stream :
       {StageStream::nodes, StageStream::shares, StageStream::copies})
    BOOST_TEST(
      (round_trip(StageValues{fence, 9, 5, stream, 7, {}}).stream == stream));
  BOOST_TEST(round_trip(RowPull{fence, {}, 9, 4, tensor({1})}).slice == 4u);
  BOOST_TEST(
    round_trip(SnapshotSlice{1, 2, 3, tensor({1}), {tensor({2})}}).state.size()
    == 1u);
  BOOST_TEST(round_trip(SnapshotRequest{fence, 9}).version == 9u);
  const auto history = round_trip(SliceHistory{9, 7, {8, 11}});
  BOOST_TEST(history.updates == 9u);
  BOOST_TEST(history.lease_floor == 7u);
  BOOST_TEST(history.leases_above.back() == 11u);
}

BOOST_AUTO_TEST_CASE(every_wire_type_of_an_end_arrives_as_it_was_sent) {
  BOOST_TEST(round_trip(Pause{fence}).fence.job == 1u);
  BOOST_TEST(round_trip(Paused{fence, worker_1, 9}).next_step == 9u);
  BOOST_TEST(round_trip(EndAt{fence, 9}).step == 9u);
  BOOST_TEST(round_trip(Finish{7}).job == 7u);
  BOOST_TEST(round_trip(Trouble{7, worker_1, "NaN"}).line == "NaN");
  MetricSample sample;
  sample.kind = MetricSample::Kind::histogram;
  sample.labels = {{"role", "ps:0"}};
  sample.bounds = {1, 2};
  sample.cumulative = {1, 2, 3};
  const RoleId reader{RoleKind::reader, 2};
  const auto report =
    round_trip(MetricsReport{worker_1, 5, {sample}, true, {reader}});
  BOOST_TEST(report.samples[0].cumulative[2] == 3u);
  BOOST_TEST(report.awaits_samples);
  BOOST_TEST((report.readers == std::vector<RoleId>{reader}));
  BOOST_TEST(round_trip(Evaluate{1, 2, 3, 4, tensor({1})}).slices == 4u);
  BOOST_TEST(round_trip(Evaluation{1, 2, 10, {{"loss", 0.5}, {"auc", 0.9}}})
               .measures[1]
               .value
             == 0.9);
  BOOST_TEST(round_trip(Attach{true}).supervises);
  round_trip(Detach{});
  BOOST_TEST(round_trip(RoleDied{worker_1, "signal 9"}).how == "signal 9");
  BOOST_TEST(round_trip(RoleDied{worker_1, "x", "h", 9}).host == "h");
  BOOST_TEST(round_trip(RoleDied{worker_1, "x", "h", 9}).process == 9u);
  BOOST_TEST(round_trip(RoleDied{worker_1, "x", "h", 9, 4}).left == 4u);
  BOOST_TEST(round_trip(ReplaceRole{worker_1, "silent"}).reason == "silent");
  BOOST_TEST(round_trip(GiveUp{"no"}).line == "no");
  BOOST_TEST(round_trip(RoleGone{worker_1, "dead"}).how == "dead");
  const auto remains = round_trip(Remains{{"/proc/1/fd/3"}, 7});
  BOOST_TEST(remains.states.size() == 1u);
  BOOST_TEST(remains.devices == 7u);
  BOOST_TEST(round_trip(Replanned{"{}"}).layout == "{}");
  BOOST_TEST(round_trip(Progress{1, 2, 3, 4, 5}).steps_per_second == 5);
  BOOST_TEST(
    round_trip(DataEpochEnd{1, 2, 3, 4, {{"loss", 5}}}).evaluation[0].value
    == 5);
  const auto spreads =
    round_trip(Spreads{1, 2, 3, 4, 5, {2, -1, 1, 0, 2, {7, 9}, {1, 1}}, {}});
  BOOST_TEST(spreads.elements == 5u);
  BOOST_TEST(spreads.values.min == -1);
  BOOST_TEST(spreads.values.buckets.back() == 9u);
  BOOST_TEST(round_trip(ValueSpread{3, 1, 2, 3, 4, {5}, {6}}).counts[0] == 6u);
  BOOST_TEST(round_trip(Note{"x"}).line == "x");
  BOOST_TEST(round_trip(Finished{130, "saved", "{}"}).status == 130);
  BOOST_TEST(round_trip(StopRequest{"interrupted"}).why == "interrupted");
}

// CAF's own float encoding spoils subnormals.
BOOST_AUTO_TEST_CASE(every_bit_of_a_tensor_arrives) {
  const std::vector<float> hard{std::numeric_limits<float>::denorm_min(), -0.0f,
                                std::numeric_limits<float>::infinity(),
                                std::numeric_limits<float>::quiet_NaN(),
                                1e-40f};
  auto arrived = round_trip(tensor(hard));
  BOOST_REQUIRE(arrived.size() == hard.size());
  BOOST_TEST(std::memcmp(arrived.data(), hard.data(), hard.size() * 4) == 0);
}

// I13
BOOST_AUTO_TEST_CASE(a_lying_length_is_refused_before_anything_is_allocated) {
  for (uint32_t length : {0xffffffffu, 8u, 6u, 5u << 20}) {
    caf::byte_buffer bytes;
    caf::binary_serializer sink{system, bytes};
    BOOST_REQUIRE(sink.value(length));
    BOOST_REQUIRE(sink.value(uint32_t{0})); // four bytes follow
    caf::binary_deserializer source{system, bytes};
    TensorView view;
    BOOST_TEST(!source.apply(view));
    BOOST_TEST(view.size() == 0u);
  }
}

BOOST_AUTO_TEST_CASE(an_unknown_role_kind_is_refused) {
  caf::byte_buffer bytes;
  caf::binary_serializer sink{system, bytes};
  BOOST_REQUIRE(sink.value(uint8_t{200}));
  BOOST_REQUIRE(sink.value(uint32_t{0}));
  caf::binary_deserializer source{system, bytes};
  RoleId role;
  BOOST_TEST(!source.apply(role));
}

BOOST_AUTO_TEST_CASE(
  a_fence_of_a_later_coordinator_is_after_any_of_an_earlier_one) {
  BOOST_TEST((Fence{1, 2, 3}.is_after(Fence{1, 1, 9})));
  BOOST_TEST((!Fence{1, 1, 9}.is_after(Fence{1, 2, 3})));
  BOOST_TEST((Fence{1, 2, 4}.is_after(Fence{1, 2, 3})));
  BOOST_TEST((!Fence{1, 2, 3}.is_after(Fence{1, 2, 3})));
}

BOOST_AUTO_TEST_SUITE_END()
