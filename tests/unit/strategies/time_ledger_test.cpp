#include "strategies/time_ledger.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <numeric>
#include <random>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(time_ledger_of_a_role)

namespace {

int64_t booked(const TimeLedger& ledger, TimeCause cause) {
  return ledger[static_cast<size_t>(cause)];
}

int64_t sum(const TimeLedger& ledger) {
  return std::accumulate(ledger.begin(), ledger.end(), int64_t{0});
}

/// The same, nanosecond by nanosecond.
TimeLedger slow_ledger(const std::vector<RoleLife>& lives, TimeSpan run) {
  struct Extent {
    int64_t begin, end;
    bool whole;
  };
  const auto has = [&](const std::vector<TimeSpan>& spans, int64_t at) {
    return std::ranges::any_of(spans, [&](const TimeSpan& x) {
      return x.begin <= at && at < x.end;
    });
  };
  std::vector<Extent> extents;
  for (const auto& life : lives) {
    Extent extent{run.end, run.begin, life.whole};
    for (auto at = run.begin; at < run.end; ++at)
      if (has(life.compute, at) || has(life.exchange, at)
          || has(life.data, at)) {
        extent.begin = std::min(extent.begin, at);
        extent.end = std::max(extent.end, at + 1);
      }
    if (extent.begin < extent.end)
      extents.push_back(extent);
  }
  std::ranges::stable_sort(extents, {}, &Extent::begin);
  TimeLedger out{};
  for (auto at = run.begin; at < run.end; ++at) {
    auto cause = TimeCause::idle;
    const auto inside = [&](const Extent& x) {
      return x.begin <= at && at < x.end;
    };
    const auto next = std::ranges::find_if(extents, [&](const Extent& x) {
      return x.begin > at;
    });
    if (std::ranges::any_of(lives,
                            [&](const auto& x) { return has(x.data, at); }))
      cause = TimeCause::data;
    else if (std::ranges::any_of(lives, [&](const auto& x) {
               return has(x.compute, at);
             }))
      cause = TimeCause::compute;
    else if (std::ranges::any_of(lives, [&](const auto& x) {
               return has(x.exchange, at);
             }))
      cause = TimeCause::exchange;
    else if (std::ranges::none_of(extents, inside) && next != extents.end())
      cause = !next->whole              ? TimeCause::unrecorded
              : next == extents.begin() ? TimeCause::start
                                        : TimeCause::recovery;
    ++out[static_cast<size_t>(cause)];
  }
  return out;
}

} // namespace

BOOST_AUTO_TEST_CASE(each_nanosecond_has_one_cause) {
  // Starts at 10, computes 20, exchanges 15 of which 5 while it computes, is
  // idle for 5, exchanges 10, dies, is back 30 later.
  const RoleLife one{{{10, 30}}, {{25, 40}, {45, 55}}};
  const RoleLife two{{{85, 95}}, {}};
  const auto ledger = time_ledger({two, one}, {0, 100});
  BOOST_TEST(booked(ledger, TimeCause::start) == 10);
  BOOST_TEST(booked(ledger, TimeCause::compute) == 30);
  BOOST_TEST(booked(ledger, TimeCause::exchange) == 20);
  BOOST_TEST(booked(ledger, TimeCause::recovery) == 30);
  BOOST_TEST(booked(ledger, TimeCause::idle) == 10);
  BOOST_TEST(booked(ledger, TimeCause::unrecorded) == 0);
}

BOOST_AUTO_TEST_CASE(a_wait_for_samples_is_no_computing) {
  const RoleLife life{{{10, 30}}, {{25, 40}}, true, {{12, 20}, {35, 45}}};
  const auto ledger = time_ledger({life}, {0, 50});
  BOOST_TEST(booked(ledger, TimeCause::start) == 10);
  BOOST_TEST(booked(ledger, TimeCause::data) == 18);
  BOOST_TEST(booked(ledger, TimeCause::compute) == 12);
  BOOST_TEST(booked(ledger, TimeCause::exchange) == 5);
  BOOST_TEST(booked(ledger, TimeCause::idle) == 5);
}

BOOST_AUTO_TEST_CASE(spans_of_other_runs_count_for_nothing) {
  const RoleLife before{{{0, 50}}, {}};
  const RoleLife across{{{90, 120}, {180, 250}}, {}};
  const auto ledger = time_ledger({before, across}, {100, 200});
  BOOST_TEST(booked(ledger, TimeCause::compute) == 40);
  BOOST_TEST(booked(ledger, TimeCause::start) == 0);
  BOOST_TEST(booked(ledger, TimeCause::recovery) == 0);
  BOOST_TEST(booked(ledger, TimeCause::idle) == 60);
}

BOOST_AUTO_TEST_CASE(what_was_written_over_is_not_called_a_start) {
  const auto ledger = time_ledger({{{{60, 80}}, {}, false}}, {0, 100});
  BOOST_TEST(booked(ledger, TimeCause::unrecorded) == 60);
  BOOST_TEST(booked(ledger, TimeCause::start) == 0);
}

BOOST_AUTO_TEST_CASE(what_was_booked_before_is_added) {
  RoleLife life{{{50, 60}, {65, 70}}, {{68, 80}}};
  life.whole = false;
  life.earlier = {{10, 55}, {5, 20, 10}};
  const auto ledger = time_ledger({life}, {0, 100});
  BOOST_TEST(booked(ledger, TimeCause::start) == 10);
  BOOST_TEST(booked(ledger, TimeCause::data) == 5);
  BOOST_TEST(booked(ledger, TimeCause::compute) == 20 + 5 + 5);
  BOOST_TEST(booked(ledger, TimeCause::exchange) == 10 + 10);
  BOOST_TEST(booked(ledger, TimeCause::unrecorded) == 0);
  BOOST_TEST(sum(ledger) == 100);
  // Of another run: nobody knows what of it was in this one.
  const auto later = time_ledger({life}, {20, 100});
  BOOST_TEST(booked(later, TimeCause::compute) == 10 + 5);
  BOOST_TEST(booked(later, TimeCause::unrecorded) == 30);
  BOOST_TEST(sum(later) == 80);
}

BOOST_AUTO_TEST_CASE(a_life_in_two_parts_is_booked_as_in_one) {
  const RoleLife whole{
    {{10, 30}, {40, 50}, {60, 90}}, {{25, 40}, {45, 65}}, true, {{12, 20}}};
  auto rest = whole;
  rest.whole = false;
  rest.earlier = {{10, 50}, whole.booked({10, 50})};
  BOOST_TEST(rest.earlier->booked.compute == 22);
  BOOST_TEST(time_ledger({rest}, {0, 100}) == time_ledger({whole}, {0, 100}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(lives_that_are_known_no_more_follow_one_another) {
  EarlierTime lives{{10, 30}, {1, 10, 4}};
  lives.follow({{40, 60}, {0, 5, 5}, 3});
  BOOST_TEST(lives.recovery == 10 + 3);
  lives.follow({{55, 70}, {0, 15, 0}}); // it overlaps: nobody knows how
  RoleLife gone;
  gone.earlier = lives;
  const auto ledger = time_ledger({gone, {{{80, 90}}, {}}}, {0, 100});
  BOOST_TEST(booked(ledger, TimeCause::start) == 10);
  BOOST_TEST(booked(ledger, TimeCause::data) == 1);
  BOOST_TEST(booked(ledger, TimeCause::compute) == 15 + 10);
  BOOST_TEST(booked(ledger, TimeCause::exchange) == 9);
  BOOST_TEST(booked(ledger, TimeCause::recovery) == 13 + 10);
  BOOST_TEST(booked(ledger, TimeCause::unrecorded) == 0);
  BOOST_TEST(sum(ledger) == 100);
}

BOOST_AUTO_TEST_CASE(a_role_that_did_nothing_was_idle) {
  BOOST_TEST(booked(time_ledger({}, {0, 9}), TimeCause::idle) == 9);
  BOOST_TEST(sum(time_ledger({}, {9, 9})) == 0);
}

BOOST_AUTO_TEST_CASE(any_spans_are_booked_as_nanosecond_by_nanosecond) {
  std::mt19937 draw{7};
  const auto below = [&](int64_t n) {
    return static_cast<int64_t>(draw() % static_cast<uint64_t>(n));
  };
  for (int trial = 0; trial < 500; ++trial) {
    std::vector<RoleLife> lives(static_cast<size_t>(below(4)));
    int64_t at = -20;
    for (auto& life : lives) {
      at += below(30);
      life.whole = below(4) > 0;
      for (auto spans = below(5); spans > 0; --spans) {
        const auto begin = at + below(12);
        const auto which = below(3);
        (which == 0   ? life.data
         : which == 1 ? life.compute
                      : life.exchange)
          .push_back({begin, begin + below(9)});
        at += below(8);
      }
    }
    const TimeSpan run{0, 60};
    const auto ledger = time_ledger(lives, run);
    BOOST_TEST(sum(ledger) == 60);
    BOOST_TEST(ledger == slow_ledger(lives, run),
               boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_SUITE_END()
