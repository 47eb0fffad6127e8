#include "actors/collectives/member.hpp"
#include "actors/control/actor_node.hpp"
#include "kernels/base/buffer.hpp"

#include <boost/test/unit_test.hpp>

#include <bit>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(member_suite)

namespace {

constexpr auto patience = std::chrono::seconds{20};

/// A group and its one owner.
struct Owner {
  ActorConfig config{Credentials{}};
  caf::actor_system system{config};
  caf::scoped_actor self{system};
  std::vector<collective_member_actor> members;

  explicit Owner(CollectiveOptions options)
    : members(spawn_collective_members(system, options)) {}
  ~Owner() {
    for (const auto& member : members)
      self->send_exit(member, caf::exit_reason::user_shutdown);
  }

  static float value(uint32_t rank, size_t i, uint32_t call) {
    return static_cast<float>((i * 31 + rank * 17 + call * 7) % 1'009) / 7;
  }
  void bring(uint32_t rank, size_t count, uint32_t call = 0) {
    auto buffer = std::make_shared<Buffer>(count);
    for (size_t i = 0; i < count; ++i)
      buffer->data()[i] = value(rank, i, call);
    const auto* values = buffer->data();
    self->send(members[rank], MemberVector{{std::move(buffer), values, count}});
  }
  MemberOutcome receive() {
    MemberOutcome got{{CollectiveEnd::late, "no answer at all"}, {}};
    self->receive([&](MemberOutcome& x) { got = std::move(x); },
                  caf::after(patience) >> [] {});
    return got;
  }
};

float tree(uint32_t lo, uint32_t hi, size_t i, uint32_t call) {
  if (hi - lo == 1)
    return Owner::value(lo, i, call);
  const auto middle = lo + std::bit_floor(hi - lo - 1);
  return tree(lo, middle, i, call) + tree(middle, hi, i, call);
}

} // namespace

BOOST_AUTO_TEST_CASE(everybody_gets_the_sum_of_the_fixed_tree) {
  for (uint32_t members : {1u, 2u, 3u, 64u, 65u, 100u})
    for (size_t count : {1u, 100u, 4'097u, 70'001u}) {
      Owner owner{{members}};
      for (uint32_t rank = 0; rank < members; ++rank)
        owner.bring(rank, count);
      for (uint32_t rank = 0; rank < members; ++rank) {
        const auto outcome = owner.receive();
        BOOST_REQUIRE(outcome.result.end == CollectiveEnd::done);
        BOOST_REQUIRE_EQUAL(outcome.sum.size(), count);
        size_t wrong = 0;
        for (size_t i = 0; i < count; i += 1 + i / 50)
          wrong += outcome.sum.data()[i] != tree(0, members, i, 0);
        BOOST_REQUIRE_EQUAL(wrong, 0u);
      }
    }
}

BOOST_AUTO_TEST_CASE(calls_of_a_fast_member_wait_for_the_slow_one) {
  Owner owner{{2}};
  for (uint32_t call = 0; call < 3; ++call)
    owner.bring(0, 1'000, call);
  for (uint32_t call = 0; call < 3; ++call)
    owner.bring(1, 1'000, call);
  std::vector<float> seen;
  for (int i = 0; i < 6; ++i)
    seen.push_back(owner.receive().sum.data()[999]);
  std::sort(seen.begin(), seen.end());
  std::vector<float> wanted;
  for (uint32_t call = 0; call < 3; ++call)
    wanted.insert(wanted.end(), 2, tree(0, 2, 999, call));
  std::sort(wanted.begin(), wanted.end());
  BOOST_TEST(seen == wanted, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_sum_that_is_still_read_is_not_overwritten) {
  Owner owner{{1}};
  std::vector<MemberOutcome> kept;
  for (uint32_t call = 0; call < 8; ++call) {
    owner.bring(0, 500, call);
    kept.push_back(owner.receive());
  }
  for (uint32_t call = 0; call < 8; ++call)
    BOOST_TEST(kept[call].sum.data()[499] == Owner::value(0, 499, call));
}

BOOST_AUTO_TEST_CASE(vectors_of_different_length_are_an_error_for_all) {
  Owner owner{{3}};
  for (uint32_t rank : {0u, 1u, 2u})
    owner.bring(rank, rank == 1 ? 7 : 8);
  for (int i = 0; i < 3; ++i) {
    const auto outcome = owner.receive();
    BOOST_CHECK(outcome.result.end == CollectiveEnd::mismatch);
    BOOST_TEST(outcome.result.reason
               == "member 0 brought 8 elements, member 1 7");
  }
  owner.bring(0, 8); // nothing goes on after that
  BOOST_CHECK(owner.receive().result.end == CollectiveEnd::mismatch);
}

BOOST_AUTO_TEST_CASE(the_end_of_one_member_ends_the_call_for_all) {
  Owner owner{{3}};
  owner.bring(0, 10);
  owner.self->send_exit(owner.members[2], caf::exit_reason::kill);
  const auto outcome = owner.receive();
  BOOST_CHECK(outcome.result.end == CollectiveEnd::aborted);
  BOOST_TEST(outcome.result.reason == "member 2 is gone");
  owner.bring(1, 10);
  BOOST_CHECK(owner.receive().result.end == CollectiveEnd::aborted);
}

BOOST_AUTO_TEST_CASE(who_does_not_come_in_time_ends_the_call_for_all) {
  Owner owner{{3, std::chrono::milliseconds{20}}};
  owner.bring(0, 10);
  owner.bring(2, 10);
  for (int i = 0; i < 2; ++i) {
    const auto outcome = owner.receive();
    BOOST_CHECK(outcome.result.end == CollectiveEnd::late);
    BOOST_TEST(outcome.result.reason == "member 1 did not come");
  }
}

BOOST_AUTO_TEST_SUITE_END()
