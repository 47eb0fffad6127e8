#include "actors/role/snapshot_outbox.hpp"

#include <boost/test/unit_test.hpp>

#include <vector>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(snapshot_outbox)

namespace {

constexpr size_t large = 4096;
constexpr size_t window = 4 * large;

struct Box {
  SnapshotOutbox outbox{window,
                        [this](const SnapshotSlice& x) { sent.push_back(x); }};
  std::vector<SnapshotSlice> sent;

  void add(uint64_t version, uint32_t slice, size_t bytes = large) {
    const std::vector<float> values(bytes / sizeof(float));
    outbox.add({1, version, slice, TensorView::copy(values), {}});
  }
  void took(size_t i) {
    outbox.took({1, sent.at(i).version, sent.at(i).slice, 0});
  }
};

} // namespace

BOOST_AUTO_TEST_CASE(so_many_bytes_are_on_their_way_at_a_time) {
  Box box;
  for (uint32_t slice = 0; slice < 10; ++slice)
    box.add(7, slice);
  BOOST_TEST(box.sent.size() == 4u);
  box.took(2);
  BOOST_TEST(box.sent.size() == 5u);
  box.took(2); // told twice, or of what was never sent
  box.outbox.took({1, 7, 9, 0});
  BOOST_TEST(box.sent.size() == 5u);
  for (size_t i = 0; i < box.sent.size(); ++i)
    box.took(i);
  BOOST_TEST(box.sent.size() == 10u);
  BOOST_TEST(box.sent.back().slice == 9u);
}

BOOST_AUTO_TEST_CASE(state_counts_and_a_slice_of_any_size_goes_alone) {
  Box box;
  const std::vector<float> values(window / 8);
  const auto half = TensorView::copy(values);
  box.outbox.add({1, 7, 0, half, {half, half}});
  box.add(7, 1);
  BOOST_TEST(box.sent.size() == 1u);
  box.took(0);
  BOOST_TEST(box.sent.size() == 2u);
}

BOOST_AUTO_TEST_CASE(what_waits_or_is_on_its_way_is_not_added_again) {
  Box box;
  for (uint32_t slice = 0; slice < 6; ++slice)
    for (int twice = 0; twice < 2; ++twice)
      box.add(7, slice);
  for (size_t i = 0; i < box.sent.size(); ++i)
    box.took(i);
  BOOST_TEST(box.sent.size() == 6u);
  box.add(7, 0); // it was taken, and is wanted once more
  BOOST_TEST(box.sent.size() == 7u);
}

BOOST_AUTO_TEST_CASE(nothing_goes_while_an_epoch_is_sealed) {
  Box box;
  box.outbox.seal({1, 1, 1});
  box.outbox.enter(false);
  for (uint32_t slice = 0; slice < 9; ++slice)
    box.add(7, slice);
  box.outbox.seal({1, 1, 2});
  box.took(0);
  box.add(7, 9);
  BOOST_TEST(box.sent.size() == 4u);
  box.outbox.enter(false); // whether the four have arrived is not known
  BOOST_TEST(box.sent.size() == 8u);
  box.took(0);
  BOOST_TEST(box.sent.size() == 8u);
  box.took(4);
  BOOST_TEST(box.sent.size() == 9u);
}

BOOST_AUTO_TEST_CASE(what_is_rolled_back_or_another_s_wish_is_dropped) {
  for (bool rollback : {false, true}) {
    Box box;
    box.outbox.seal({1, 1, 1});
    box.outbox.enter(false);
    for (uint32_t slice = 0; slice < 9; ++slice)
      box.add(7, slice);
    box.outbox.seal({1, rollback ? 1u : 2u, 2});
    box.outbox.enter(rollback);
    BOOST_TEST(box.sent.size() == 4u);
    box.add(7, 0);
    BOOST_TEST(box.sent.size() == 5u);
  }
}

BOOST_AUTO_TEST_SUITE_END()
