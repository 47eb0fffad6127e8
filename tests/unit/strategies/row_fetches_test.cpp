#include "strategies/row_fetches.hpp"

#include <boost/test/unit_test.hpp>

#include <map>
#include <set>
#include <variant>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(row_fetches)

namespace {

using Actions = RowFetches::Actions;

constexpr RoleId first{RoleKind::reader, 0};
constexpr RoleId second{RoleKind::reader, 1};

template <class Kind>
std::vector<Kind> all(const Actions& actions) {
  std::vector<Kind> out;
  for (const auto& action : actions)
    if (const auto* x = std::get_if<Kind>(&action))
      out.push_back(*x);
  return out;
}

std::vector<RowFetches::Ask> asks(const Actions& actions) {
  return all<RowFetches::Ask>(actions);
}

RowFetches::Options window(uint64_t bytes) {
  RowFetches::Options options;
  options.window_bytes = bytes;
  return options;
}

/// With readers that are linked.
RowFetches linked(const std::vector<RoleId>& readers, uint64_t bytes = 100) {
  RowFetches fetches{window(bytes)};
  fetches.readers(readers);
  for (auto reader : readers)
    fetches.linked(reader);
  return fetches;
}

} // namespace

BOOST_AUTO_TEST_CASE(the_first_wish_asks_who_reads_and_links) {
  RowFetches fetches{window(100)};
  const auto wished = fetches.expect(1, 10, 0);
  BOOST_TEST(all<RowFetches::LookUp>(wished).size() == 1u);
  BOOST_TEST(asks(wished).empty());
  BOOST_TEST(all<RowFetches::Link>(fetches.readers({first})).size() == 1u);
  BOOST_TEST(all<RowFetches::Link>(fetches.readers({first})).empty());
  const auto asked = asks(fetches.linked(first));
  BOOST_TEST(asked.size() == 1u);
  BOOST_TEST(asked.front().batch == 1u);
  BOOST_TEST((asked.front().reader == first));
}

BOOST_AUTO_TEST_CASE(batches_go_to_the_reader_that_owes_least) {
  auto fetches = linked({first, second});
  BOOST_TEST((asks(fetches.expect(1, 30, 0)).front().reader == first));
  BOOST_TEST((asks(fetches.expect(2, 10, 0)).front().reader == second));
  BOOST_TEST((asks(fetches.expect(3, 10, 0)).front().reader == second));
  BOOST_TEST((asks(fetches.expect(4, 10, 0)).front().reader == second));
}

BOOST_AUTO_TEST_CASE(a_window_bounds_what_is_asked_for_or_here) {
  auto fetches = linked({first});
  const auto one = asks(fetches.expect(1, 60, 0)).front();
  BOOST_TEST(asks(fetches.expect(2, 60, 0)).empty());
  fetches.arrived(1, one.request);
  BOOST_TEST(fetches.held_bytes() == 60u);
  BOOST_TEST(asks(fetches.tick(1)).empty());
  const auto next = asks(fetches.taken(1));
  BOOST_TEST(next.size() == 1u);
  BOOST_TEST(next.front().batch == 2u);
  BOOST_TEST(fetches.held_bytes() == 60u);
}

BOOST_AUTO_TEST_CASE(a_batch_larger_than_the_window_goes_alone) {
  auto fetches = linked({first});
  BOOST_TEST(asks(fetches.await(1, 500, 0)).size() == 1u);
  BOOST_TEST(asks(fetches.await(2, 1, 0)).empty());
  BOOST_TEST(asks(fetches.taken(1)).size() == 1u);
}

BOOST_AUTO_TEST_CASE(what_is_awaited_drives_out_what_is_expected) {
  auto fetches = linked({first});
  const auto one = asks(fetches.expect(1, 50, 0)).front();
  fetches.arrived(1, one.request);
  fetches.expect(2, 50, 0);
  // Of the two the one that is here goes first, as the latest of those would.
  const auto actions = fetches.await(3, 40, 0);
  const auto gone = all<RowFetches::Forget>(actions);
  BOOST_TEST(gone.size() == 1u);
  BOOST_TEST(gone.front().batch == 1u);
  BOOST_TEST(asks(actions).front().batch == 3u);
  BOOST_TEST(fetches.held_bytes() == 90u);
}

BOOST_AUTO_TEST_CASE(what_others_await_is_never_driven_out) {
  auto fetches = linked({first});
  fetches.await(1, 60, 0);
  const auto actions = fetches.await(2, 60, 0);
  BOOST_TEST(all<RowFetches::Forget>(actions).empty());
  BOOST_TEST(asks(actions).empty());
  BOOST_TEST(asks(fetches.taken(1)).front().batch == 2u);
}

BOOST_AUTO_TEST_CASE(what_is_awaited_is_asked_for_before_what_is_expected) {
  RowFetches fetches{window(100)};
  fetches.expect(1, 60, 0);
  fetches.await(2, 60, 0);
  fetches.readers({first});
  const auto asked = asks(fetches.linked(first));
  BOOST_TEST(asked.size() == 1u);
  BOOST_TEST(asked.front().batch == 2u);
}

BOOST_AUTO_TEST_CASE(a_wait_that_is_long_says_of_whom) {
  auto fetches = linked({first, second});
  fetches.expect(1, 10, 0);
  BOOST_TEST(!fetches.late(10'000)); // nobody waits for it
  const auto asked = asks(fetches.await(2, 10, 100)).front();
  BOOST_TEST(!fetches.late(599));
  BOOST_TEST((fetches.late(600) == std::vector{asked.reader}));
  fetches.await(3, 500, 100); // there is no room for it
  BOOST_TEST((fetches.late(600) == std::vector{asked.reader}));
  fetches.arrived(2, asked.request);
  BOOST_TEST((fetches.late(600) == std::vector<RoleId>{}));
  RowFetches alone{window(100)};
  alone.await(1, 10, 0);
  BOOST_TEST((alone.late(500) == std::vector<RoleId>{}));
}

BOOST_AUTO_TEST_CASE(a_dead_readers_batches_are_asked_of_another) {
  auto fetches = linked({first, second});
  const auto lost = asks(fetches.await(1, 10, 0)).front();
  BOOST_TEST((lost.reader == first));
  const auto actions = fetches.unlinked(first, 105);
  const auto again = asks(actions);
  BOOST_TEST(again.size() == 1u);
  BOOST_TEST((again.front().reader == second));
  BOOST_TEST(all<RowFetches::LookUp>(actions).size() == 1u);
  // Its answer, if one was on the way, comes too late.
  fetches.arrived(1, lost.request);
  fetches.unlinked(second, 106);
  fetches.readers({first});
  BOOST_TEST(asks(fetches.linked(first)).size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_reader_that_was_left_out_is_not_waited_for) {
  auto fetches = linked({first, second});
  fetches.await(1, 10, 0);
  const auto again = asks(fetches.readers({second}));
  BOOST_TEST(again.size() == 1u);
  BOOST_TEST((again.front().reader == second));
}

BOOST_AUTO_TEST_CASE(an_answer_of_a_reader_that_was_left_out_counts_still) {
  auto fetches = linked({first});
  const auto one = asks(fetches.await(1, 10, 0)).front();
  fetches.readers({});
  fetches.arrived(1, one.request);
  fetches.readers({second});
  BOOST_TEST(asks(fetches.linked(second)).empty());
  BOOST_TEST(fetches.held_bytes() == 10u);
}

BOOST_AUTO_TEST_CASE(where_nobody_reads_it_is_asked_often_and_else_seldom) {
  RowFetches fetches{window(100)};
  fetches.await(1, 10, 0);
  BOOST_TEST(all<RowFetches::LookUp>(fetches.tick(50)).empty());
  BOOST_TEST(all<RowFetches::LookUp>(fetches.tick(100)).size() == 1u);
  fetches.readers({first});
  fetches.linked(first);
  BOOST_TEST(all<RowFetches::LookUp>(fetches.tick(300)).empty());
  fetches.taken(1);
  BOOST_TEST(all<RowFetches::LookUp>(fetches.tick(1'099)).empty());
  BOOST_TEST(all<RowFetches::LookUp>(fetches.tick(1'100)).size() == 1u);
}

BOOST_AUTO_TEST_CASE(where_one_is_late_it_is_asked_often) {
  auto fetches = linked({first});
  fetches.await(1, 10, 0);
  BOOST_TEST(all<RowFetches::LookUp>(fetches.tick(499)).empty());
  BOOST_TEST(all<RowFetches::LookUp>(fetches.tick(500)).size() == 1u);
  BOOST_TEST(all<RowFetches::LookUp>(fetches.tick(600)).size() == 1u);
}

BOOST_AUTO_TEST_CASE(nobody_is_asked_who_reads_before_there_is_a_wish) {
  RowFetches fetches{window(100)};
  BOOST_TEST(fetches.tick(5'000).empty());
}

BOOST_AUTO_TEST_CASE(a_long_wait_is_told_once_and_says_for_what) {
  RowFetches fetches{window(100)};
  fetches.await(1, 10, 0);
  BOOST_TEST(all<RowFetches::Tell>(fetches.tick(1'999)).empty());
  const auto told = all<RowFetches::Tell>(fetches.tick(2'000));
  BOOST_TEST(told.size() == 1u);
  BOOST_TEST(told.front().line == "waits for samples: no reader is there");
  BOOST_TEST(all<RowFetches::Tell>(fetches.tick(3'000)).empty());
}

BOOST_AUTO_TEST_CASE(a_wait_ends_by_its_deadline_and_names_the_reader) {
  auto fetches = linked({first});
  fetches.await(1, 10, 500);
  BOOST_TEST(all<RowFetches::GiveUp>(fetches.tick(60'499)).empty());
  const auto given = all<RowFetches::GiveUp>(fetches.tick(60'500));
  BOOST_TEST(given.size() == 1u);
  BOOST_TEST(given.front().batch == 1u);
  BOOST_TEST(given.front().reason.starts_with(
    "no samples within 60 s: reader:0 has not answered"));
  BOOST_TEST(fetches.held_bytes() == 0u);
}

BOOST_AUTO_TEST_CASE(what_is_expected_has_no_deadline) {
  RowFetches fetches{window(100)};
  fetches.expect(1, 10, 0);
  const auto late = fetches.tick(100'000);
  BOOST_TEST(all<RowFetches::GiveUp>(late).empty());
  BOOST_TEST(all<RowFetches::Tell>(late).empty());
}

BOOST_AUTO_TEST_CASE(what_nobody_comes_for_is_dropped_in_time) {
  auto fetches = linked({first});
  const auto one = asks(fetches.expect(1, 90, 0)).front();
  fetches.arrived(1, one.request);
  size_t forgotten = 0;
  uint64_t batch = 2;
  for (; forgotten == 0 && batch < 1'000; ++batch) {
    fetches.await(batch, 10, 0);
    forgotten = all<RowFetches::Forget>(fetches.taken(batch)).size();
  }
  BOOST_TEST(forgotten == 1u);
  BOOST_TEST(batch > 30u); // not before three windows were taken
  BOOST_TEST(fetches.held_bytes() == 0u);
}

BOOST_AUTO_TEST_CASE(where_no_own_reader_can_be_linked_anothers_is_asked) {
  RowFetches fetches{window(100)};
  fetches.await(1, 10, 0);
  const auto links = all<RowFetches::Link>(fetches.readers({first}, {second}));
  BOOST_TEST(links.size() == 1u);
  BOOST_TEST((links.front().reader == first));
  fetches.unlinked(first, 100, "connection refused");
  fetches.readers({first}, {second});
  BOOST_TEST(all<RowFetches::Link>(fetches.tick(499)).empty());
  const auto next = all<RowFetches::Link>(fetches.tick(500));
  BOOST_TEST(next.size() == 1u);
  BOOST_TEST((next.front().reader == second));
  BOOST_TEST((asks(fetches.linked(second)).front().reader == second));
  // Its own comes first as soon as there is a link to it.
  fetches.linked(first);
  BOOST_TEST((asks(fetches.expect(2, 10, 600)).front().reader == first));
}

BOOST_AUTO_TEST_CASE(of_others_one_after_the_other_is_tried) {
  constexpr RoleId third{RoleKind::reader, 2};
  RowFetches fetches{window(100)};
  fetches.await(1, 10, 0);
  const auto tried = [&](uint64_t now) {
    const auto links = all<RowFetches::Link>(fetches.tick(now));
    return links.empty() ? first : links.front().reader;
  };
  const auto told = [&] { fetches.readers({}, {second, third}); };
  told();
  BOOST_TEST((tried(500) == second));
  BOOST_TEST((tried(550) == first)); // that one is under way
  fetches.unlinked(second, 600, "no route");
  told();
  BOOST_TEST((tried(650) == third));
  fetches.unlinked(third, 700, "no route");
  told();
  BOOST_TEST((tried(750) == second));
}

BOOST_AUTO_TEST_CASE(a_reader_that_does_not_answer_is_passed_over) {
  auto fetches = linked({first});
  fetches.readers({first}, {second});
  const auto stuck = asks(fetches.await(1, 10, 0)).front();
  fetches.tick(50);
  BOOST_TEST(all<RowFetches::Link>(fetches.tick(2'049)).empty());
  BOOST_TEST(all<RowFetches::Link>(fetches.tick(2'050)).size() == 1u);
  fetches.linked(second);
  const auto again = asks(fetches.tick(2'100));
  BOOST_TEST(again.size() == 1u);
  BOOST_TEST((again.front().reader == second));
  fetches.arrived(1, stuck.request);
  fetches.tick(2'150);
  // The next has twice as long.
  BOOST_TEST(asks(fetches.tick(6'149)).empty());
  BOOST_TEST((asks(fetches.tick(6'150)).front().reader == first));
}

BOOST_AUTO_TEST_CASE(why_there_is_no_link_is_told) {
  RowFetches fetches{window(100)};
  fetches.await(1, 10, 0);
  fetches.readers({first});
  fetches.unlinked(first, 100, "connection refused");
  const auto told = all<RowFetches::Tell>(fetches.tick(2'000));
  BOOST_TEST(told.size() == 1u);
  BOOST_TEST(told.front().line
             == "waits for samples: there is no link to reader:0 (connection "
                "refused)");
}

BOOST_AUTO_TEST_CASE(every_batch_is_had_whichever_readers_come_and_go) {
  // Readers are lost and return in a fixed disorder; each batch is answered in
  // the end, and what is held stays within the window.
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    auto state = seed;
    const auto draw = [&state](uint64_t below) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      return (state >> 33) % below;
    };
    RowFetches fetches{window(100)};
    std::vector<RowFetches::Ask> open;
    std::vector<RoleId> linking;
    std::map<uint64_t, uint64_t> newest; ///< request of a batch
    std::set<uint64_t> done;
    const auto take = [&](const Actions& actions) {
      for (const auto& x : asks(actions)) {
        open.push_back(x);
        newest[x.batch] = x.request;
      }
      for (const auto& x : all<RowFetches::Link>(actions))
        linking.push_back(x.reader);
      BOOST_TEST(all<RowFetches::GiveUp>(actions).empty());
    };
    uint64_t now = 0;
    for (uint64_t batch = 1; batch <= 12; ++batch) {
      take(fetches.await(batch, 40, ++now));
      for (uint32_t turn = 0; !done.contains(batch); ++turn) {
        BOOST_REQUIRE(turn < 10'000u);
        take(fetches.tick(++now));
        const RoleId one{RoleKind::reader, static_cast<uint32_t>(draw(2))};
        switch (draw(turn < 50 ? 5 : 3)) {
          case 0:
            take(fetches.readers({first, second}));
            break;
          case 1:
            if (!linking.empty()) {
              take(fetches.linked(linking.back()));
              linking.pop_back();
            }
            break;
          case 2:
            if (!open.empty()) {
              const auto answer = open[draw(open.size())];
              fetches.arrived(answer.batch, answer.request);
              if (answer.request == newest[batch]) {
                done.insert(batch);
                take(fetches.taken(batch));
              }
            }
            break;
          case 3:
            std::erase_if(open, [&](const auto& x) { return x.reader == one; });
            std::erase(linking, one);
            take(fetches.unlinked(one, now));
            break;
          default:
            take(fetches.readers({one}));
        }
        BOOST_TEST(fetches.held_bytes() <= 100u);
      }
    }
    BOOST_TEST(done.size() == 12u);
  }
}

BOOST_AUTO_TEST_SUITE_END()
