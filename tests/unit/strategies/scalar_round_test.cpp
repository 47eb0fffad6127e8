#include "strategies/scalar_round.hpp"

#include <boost/test/unit_test.hpp>

#include <array>
#include <map>
#include <optional>
#include <random>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(scalar_round)

using Verdict = ScalarRound::Verdict;
using Key = ScalarRound::Key;

BOOST_AUTO_TEST_CASE(the_last_slice_completes_a_round) {
  ScalarRound round{3};
  auto first = round.offer({5, 0}, 1);
  BOOST_TEST((first.verdict == Verdict::accept));
  BOOST_TEST(first.begins);
  BOOST_TEST(!first.complete);
  BOOST_TEST(!round.offer({5, 0}, 2).complete);
  auto last = round.offer({5, 0}, 0);
  BOOST_TEST(!last.begins);
  BOOST_TEST(last.complete);
}

BOOST_AUTO_TEST_CASE(a_slice_counts_once) {
  ScalarRound round{2};
  round.offer({0, 0}, 1);
  auto again = round.offer({0, 0}, 1);
  BOOST_TEST((again.verdict == Verdict::duplicate));
  BOOST_TEST(!again.complete);
  BOOST_TEST(round.offer({0, 0}, 0).complete);
}

BOOST_AUTO_TEST_CASE(a_newer_round_begins_and_an_older_one_is_stale) {
  ScalarRound round{1};
  BOOST_TEST(round.offer({3, 0}, 0).complete);
  auto next = round.offer({3, 1}, 0);
  BOOST_TEST(next.begins);
  BOOST_TEST(next.complete);
  BOOST_TEST((round.offer({3, 0}, 0).verdict == Verdict::stale));
  BOOST_TEST(round.offer({4, 0}, 0).begins);
  BOOST_TEST((round.offer({3, 1}, 0).verdict == Verdict::stale));
}

BOOST_AUTO_TEST_CASE(after_an_epoch_change_all_ask_again) {
  ScalarRound round{2};
  round.offer({3, 0}, 0);
  round.forget();
  auto again = round.offer({3, 0}, 0);
  BOOST_TEST((again.verdict == Verdict::accept));
  BOOST_TEST(again.begins);
  BOOST_TEST(round.offer({3, 0}, 1).complete);
}

namespace {

constexpr uint32_t slices = 4;
constexpr uint32_t rounds = 2;
constexpr uint64_t steps = 20;

/// Slices and a decider whose memory outlives them, which are killed between
/// any two messages. A slice's sum is a number of its own; the scalar adds up
/// all of them, so that one missing or counted twice shows.
struct World {
  struct SliceNode {
    uint64_t version = 0; // durable
    uint32_t round = 0;   // the rest is lost with the process
    bool asked = false;
  };

  static uint64_t sum_of(Key key, uint32_t slice) {
    return (key.step * rounds + key.round) * 1000 + (1u << slice);
  }
  static uint64_t scalar_of(Key key) {
    uint64_t total = 0;
    for (uint32_t slice = 0; slice < slices; ++slice)
      total += sum_of(key, slice);
    return total;
  }

  /// A step begins in a slice once all have applied the one before.
  bool may_ask(const SliceNode& node) const {
    for (const auto& other : nodes)
      if (other.version < node.version)
        return false;
    return node.version < steps;
  }

  void epoch_change() { // messages under way are fenced
    machine.forget();
    sums.clear();
    for (auto& node : nodes) {
      node.round = 0;
      node.asked = false;
    }
  }

  void answer(uint32_t slice, Key key, uint64_t scalar) {
    auto& node = nodes[slice];
    if (!node.asked || node.version != key.step || node.round != key.round)
      return;
    BOOST_REQUIRE_EQUAL(scalar, scalar_of(key));
    node.asked = false;
    if (++node.round == rounds) {
      node.round = 0;
      ++node.version;
    }
  }

  void ask(uint32_t slice) {
    auto& node = nodes[slice];
    if (node.asked || !may_ask(node))
      return;
    node.asked = true;
    const Key key{node.version, node.round};
    if (auto known = record.find(key); known != record.end()) {
      answer(slice, key, known->second);
      return;
    }
    auto decision = machine.offer(key, slice);
    if (decision.verdict != Verdict::accept)
      return;
    if (decision.begins)
      sums.clear();
    sums[slice] = sum_of(key, slice);
    if (!decision.complete)
      return;
    uint64_t total = 0;
    for (auto [id, sum] : sums)
      total += sum;
    record[key] = total;
    published = key;
  }

  ScalarRound machine{slices};
  std::map<uint32_t, uint64_t> sums;
  std::map<Key, uint64_t> record; // durable
  std::optional<Key> published;   // on its way to the slices
  std::array<SliceNode, slices> nodes{};
};

} // namespace

// I3, I4, I11
BOOST_AUTO_TEST_CASE(every_slice_gets_each_scalar_whoever_dies_when) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    World world;
    std::mt19937_64 draw{seed};
    uint32_t killed = 0;
    for (uint32_t event = 0; event < 400; ++event) {
      if (draw() % 11 == 0) {
        world.epoch_change();
        world.published.reset();
        ++killed;
      } else if (world.published && draw() % 2 == 0) {
        // Reaches some; the others' process ends first.
        const auto key = *world.published;
        for (uint32_t slice = 0; slice < slices; ++slice)
          if (draw() % 4 != 0)
            world.answer(slice, key, world.record[key]);
      } else {
        world.ask(static_cast<uint32_t>(draw() % slices));
      }
    }
    BOOST_TEST(killed > 0u);
    // After the faults: one more epoch, then all goes on to the end.
    world.epoch_change();
    for (uint32_t turn = 0; turn < steps * rounds * slices * 2; ++turn) {
      world.ask(turn % slices);
      if (world.published)
        for (uint32_t slice = 0; slice < slices; ++slice)
          world.answer(slice, *world.published, world.record[*world.published]);
    }
    for (const auto& node : world.nodes)
      BOOST_TEST(node.version == steps);
  }
}

BOOST_AUTO_TEST_SUITE_END()
