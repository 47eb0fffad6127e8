#include "actors/control/actor_node.hpp"
#include "actors/journal/journal_file.hpp"
#include "actors/voting/voter.hpp"

#include <boost/test/unit_test.hpp>

#include <cstdlib>
#include <filesystem>
#include <future>
#include <memory>

using namespace troupe;

namespace voter_test {
namespace {

constexpr LogFolding soon{100, {20, 10}};

/// A voter's file, and what a leader of term 1 says to it.
struct Kept {
  Kept() {
    std::string name = "/tmp/troupe-voter-XXXXXX";
    folder = mkdtemp(name.data());
    path = folder + "/journal.db";
  }
  ~Kept() { std::filesystem::remove_all(folder); }

  /// The next events; all before them are decided.
  AppendLog next(uint64_t count) {
    AppendLog out{1, end > 0 ? 1U : 0U, end, {}, false, end};
    for (uint64_t i = 0; i < count; ++i, ++end)
      out.events.push_back(
        {end + 1, 0, 1, "commits",
         R"({"first":)" + std::to_string(end) + R"(,"count":1})"});
    return out;
  }
  LogTaken tell(const AppendLog& batch) {
    LogTaken out;
    self->request(voter, std::chrono::seconds{10}, batch)
      .receive([&](const LogTaken& x) { out = x; },
               [](const caf::error& why) { BOOST_ERROR(to_string(why)); });
    return out;
  }
  void end_voter() {
    self->send_exit(voter, caf::exit_reason::user_shutdown);
    self->wait_for(voter);
    voter = nullptr;
  }
  std::vector<JournalEvent> events() const {
    return JournalFile{path, JournalFile::Open::read}.events();
  }

  std::string folder;
  std::string path;
  ActorConfig config{Credentials{}};
  caf::actor_system system{config};
  caf::scoped_actor self{system};
  voter_actor voter;
  uint64_t end = 0;
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(voter, Kept)

BOOST_AUTO_TEST_CASE(a_voter_keeps_a_bounded_journal_and_goes_on_with_it) {
  for (int turn = 0; turn < 2; ++turn) {
    voter = spawn_voter(system, path, {}, 1'000, soon);
    for (int i = 0; i < 50; ++i)
      BOOST_TEST(tell(next(30)).have == end);
    end_voter();
  }
  BOOST_TEST(end == 3'000u);
  const auto found = events();
  BOOST_TEST(found.size() < 300u);
  BOOST_TEST(found.back().id == end);
}

BOOST_AUTO_TEST_CASE(a_voter_takes_a_snapshot_and_what_follows_it) {
  voter = spawn_voter(system, path, {}, 1'000, soon);
  tell(next(3));
  AppendLog snapshot{1, 1, 90, {}, true, 90};
  for (uint64_t id : {40U, 80U, 90U})
    snapshot.events.push_back({id, 0, 1, "note", "{}"});
  BOOST_TEST(tell(snapshot).fits);
  end = 90;
  BOOST_TEST(tell(next(2)).have == 92u);
  BOOST_TEST(tell(snapshot).have == 90u); // late, it takes nothing away
  end_voter();
  const auto found = events();
  BOOST_TEST(found.size() == 5u);
  BOOST_TEST(found.back().id == 92u);
}

BOOST_AUTO_TEST_CASE(a_voter_tells_of_the_job_once_that_is_decided) {
  auto asked = std::make_shared<std::promise<std::string>>();
  auto told = asked->get_future();
  voter = spawn_voter(system, path, {{}, [asked](const std::string& job) {
                                       asked->set_value(job);
                                     }});
  AppendLog job{1, 0, 0, {}, false, 0};
  job.events.push_back({1, 0, 1, "job", R"({"job":7,"asked":"flags"})"});
  BOOST_TEST(tell(job).have == 1u);
  BOOST_TEST((told.wait_for(std::chrono::milliseconds{50})
              == std::future_status::timeout));
  BOOST_TEST(tell({1, 1, 1, {}, false, 1}).have == 1u);
  BOOST_TEST_REQUIRE(
    (told.wait_for(std::chrono::seconds{10}) == std::future_status::ready));
  BOOST_TEST(told.get() == "flags");
  end_voter();
}

BOOST_AUTO_TEST_CASE(a_voter_tells_where_the_coordinator_of_the_term_listens) {
  auto all = std::make_shared<std::promise<std::string>>();
  auto told = all->get_future();
  VoterCalls calls;
  calls.coordinator = [all](const std::string& address) {
    all->set_value(address); // once
  };
  voter = spawn_voter(system, path, calls);
  const auto listens = [](uint64_t id, uint64_t term, const std::string& at) {
    return JournalEvent{id, 0, term, "address",
                        R"({"coordinator":")" + at
                          + R"(","metrics":"","resume_from":""})"};
  };
  AppendLog both{2, 0, 0, {}, false, 0};
  both.events = {listens(1, 1, "before:1"), listens(2, 2, "now:1")};
  BOOST_TEST(tell(both).have == 2u);
  BOOST_TEST(tell({2, 2, 2, {}, false, 2}).have == 2u);
  BOOST_TEST_REQUIRE(
    (told.wait_for(std::chrono::seconds{10}) == std::future_status::ready));
  BOOST_TEST(told.get() == "now:1");
  end_voter();
}

BOOST_AUTO_TEST_SUITE_END()

} // namespace voter_test
