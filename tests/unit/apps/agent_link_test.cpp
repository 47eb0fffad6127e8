#include "actors/process/brought_flight.hpp"
#include "actors/process/flight_recorder.hpp"
#include "apps/launch/agent_link.hpp"

#include <boost/test/unit_test.hpp>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>
#include <thread>

using namespace troupe;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(agent_link)

namespace {

constexpr auto here =
  R"(echo '{"is":"here","version":"1","host":"b","time_s":1,"address":)"
  R"("10.0.0.2","client":"10.0.0.1"}'; )";

constexpr auto said_alive = R"(echo '{"is":"alive"}'; )";

/// A link whose agent is a shell.
struct Bench {
  ChildProcesses processes;
  std::shared_ptr<AgentLink> link;
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<HostProcesses::End> end;
  std::string line;
  std::atomic<size_t> words = 0;
  std::atomic<int> sent = 0;

  explicit Bench(const std::string& script, bool has_program = false,
                 const std::string& flights = {},
                 std::chrono::milliseconds quiet = 1h) {
    AgentLink::Options options;
    options.flights = flights;
    options.quiet = quiet;
    options.name = "b";
    options.command = {"/bin/sh", "-c", script};
    options.why = [this](const std::vector<std::string>& said,
                         const std::string& how) {
      words = said.size();
      return (said.empty() ? "" : said.back() + ", ") + how;
    };
    options.signer =
      std::make_shared<MemberSigner>(make_authority(CertificateSource{}));
    options.processes = &processes;
    options.deadline = 1ms;
    if (has_program)
      options.program = [this] {
        ++sent;
        return std::make_shared<const std::string>("bytes");
      };
    link = std::make_shared<AgentLink>(std::move(options));
  }

  uint64_t start(bool paired = false) {
    HostProcesses::Order order;
    order.role = {RoleKind::worker, 3};
    order.paired = paired;
    order.coordinator = "0.0.0.0:7000";
    order.on_line = [this](const std::string& text) {
      const std::lock_guard guard{mutex};
      line = text;
    };
    order.on_end = [this](const HostProcesses::End& x) {
      const std::lock_guard guard{mutex};
      end = x;
      changed.notify_all();
    };
    return link->start(std::move(order));
  }

  HostProcesses::End wait() {
    std::unique_lock guard{mutex};
    BOOST_REQUIRE(
      changed.wait_for(guard, 20s, [&] { return end.has_value(); }));
    return *end;
  }
};

} // namespace

BOOST_AUTO_TEST_CASE(a_role_is_started_once_the_agent_is_here) {
  // The agent says what it was told as the role's line, and how it ended.
  Bench bench{std::string{here}
              + R"(read -r start; )"
                R"(case "$start" in *'"coordinator":"10.0.0.1:7000"'*) ;; )"
                R"(*) exit 3;; esac; )"
                R"(case "$start" in *'"--listen","10.0.0.2:0"'*) ;; )"
                R"(*) exit 4;; esac; )"
                R"(echo '{"is":"line","id":1,"text":"hello"}'; )"
                R"(echo '{"is":"ended","id":1,"how":"signal 9","ms":7,)"
                R"("by_itself":false,"memory":false,"input":true,)"
                R"("well":false,"process":55}'; read -r more)"};
  bench.link->reach_coordinator_at("10.0.0.1");
  bench.start();
  const auto end = bench.wait();
  BOOST_TEST(end.death.how == "signal 9");
  BOOST_TEST(end.death.life.ms == 7u);
  BOOST_TEST(end.death.life.input);
  BOOST_TEST(end.process.host == "b");
  BOOST_TEST(end.process.process == 55u);
  BOOST_TEST(bench.line == "hello");
  BOOST_TEST(bench.link->address() == "10.0.0.2");
}

BOOST_AUTO_TEST_CASE(a_key_is_signed_for_the_role_that_was_started) {
  const MemberRequest request;
  auto text = request.request();
  for (size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 2)
    text.replace(at, 1, "\\n");
  Bench bench{std::string{here} + R"(read -r start; printf '%s\n' ')"
              + R"({"is":"asks","id":1,"request":")" + text
              + R"("}'; read -r signed; )"
                R"(case "$signed" in *CERTIFICATE*'"do":"signed"'*) exit 5;; )"
                R"(esac; exit 6)"};
  bench.start();
  BOOST_TEST(bench.wait().death.how.find("exit status 5") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_worker_with_its_shard_is_started_as_both) {
  Bench bench{std::string{here}
              + R"(read -r start; case "$start" in *'"paired":true'*) ;; )"
                R"(*) exit 3;; esac; case "$start" in *worker:3*) exit 5;; )"
                R"(esac; exit 4)"};
  bench.start(true);
  BOOST_TEST(bench.wait().death.how.find("exit status 5") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(roles_end_with_the_way_to_their_host) {
  Bench bench{std::string{here} + "read -r start; echo cut; exit 255"};
  bench.start();
  const auto end = bench.wait();
  BOOST_TEST(end.death.how
             == "its host is lost: the connection to b ended with exit status "
                "255: cut");
  BOOST_TEST(end.death.life.by_itself);
  BOOST_TEST(end.death.life.away);
  // The next one connects again.
  {
    const std::lock_guard guard{bench.mutex};
    bench.end.reset();
  }
  bench.start();
  BOOST_TEST(bench.wait().death.how == end.death.how);
}

BOOST_AUTO_TEST_CASE(who_is_killed_while_its_host_is_silent_died_of_that) {
  const auto is_away = [](const std::string& answer,
                          std::chrono::milliseconds quiet) {
    Bench bench{std::string{here} + "read -r start; " + "read -r kill; "
                  + answer
                  + R"(echo '{"is":"ended","id":1,"how":"signal 9","ms":7,)"
                    R"("by_itself":false,"memory":false,"input":false,)"
                    R"("well":false,"process":55}'; read -r more)",
                false,
                {},
                quiet};
    const auto number = bench.start();
    std::string why;
    for (int i = 0; i < 1000 && !bench.link->settled(why); ++i)
      std::this_thread::sleep_for(20ms);
    BOOST_REQUIRE(bench.link->is_here());
    bench.link->kill(number);
    return bench.wait().death.life.away;
  };
  BOOST_TEST(is_away("sleep 0.3; ", 200ms));
  BOOST_TEST(is_away("sleep 0.3; " + std::string{said_alive}, 200ms));
  BOOST_TEST(!is_away("", 1h));
}

BOOST_AUTO_TEST_CASE(who_is_killed_before_its_agent_is_here_died_of_that) {
  Bench bench{"exec sleep 100"};
  bench.link->kill(bench.start());
  BOOST_TEST(bench.wait().death.life.away);
}

BOOST_AUTO_TEST_CASE(an_agent_that_never_comes_is_given_up) {
  Bench bench{"exec sleep 100"};
  bench.link->begin();
  std::string why;
  for (int i = 0; i < 1000 && !bench.link->settled(why); ++i) {
    bench.link->pulse();
    std::this_thread::sleep_for(20ms);
  }
  BOOST_TEST(why.find("timed out") != std::string::npos, why);
  BOOST_TEST(!bench.link->here());
}

BOOST_AUTO_TEST_CASE(what_is_no_message_is_kept_as_words) {
  Bench bench{R"(echo '{"is":"here"}'; echo '{"is":'; echo Banner; exit 9)"};
  bench.link->begin();
  std::string why;
  for (int i = 0; i < 1000 && !bench.link->settled(why); ++i)
    std::this_thread::sleep_for(20ms);
  BOOST_TEST(why == "Banner, exit status 9");
}

BOOST_AUTO_TEST_CASE(what_a_host_says_is_bounded) {
  // Lines that are no agent's grew without bound, and a long one was shown.
  Bench bench{R"(i=0; while [ $i -lt 500 ]; do echo '{"is":1}'; i=$((i+1)); )"
              R"(done; head -c 500000 /dev/zero | tr '\0' A; echo; exit 9)"};
  bench.link->begin();
  std::string why;
  for (int i = 0; i < 1000 && !bench.link->settled(why); ++i)
    std::this_thread::sleep_for(20ms);
  BOOST_TEST(why.ends_with("A…, exit status 9"));
  BOOST_TEST(why.size() < 400u);
  BOOST_TEST(bench.words <= 20u);
}

BOOST_AUTO_TEST_CASE(what_a_host_says_steers_no_terminal) {
  Bench bench{R"(printf 'so\033[2J\n'; exit 9)"};
  bench.link->begin();
  std::string why;
  for (int i = 0; i < 1000 && !bench.link->settled(why); ++i)
    std::this_thread::sleep_for(20ms);
  BOOST_TEST(why == "so?[2J, exit status 9");
}

BOOST_AUTO_TEST_CASE(a_host_that_is_here_again_starts_nothing_twice) {
  Bench bench{
    std::string{here} + "read -r start; " + here
    + R"-([ -z "$(timeout -s KILL 1 head -n 1)" ] && exit 5; exit 6)-"};
  bench.start();
  BOOST_TEST(bench.wait().death.how.find("exit status 5") != std::string::npos);
}

// Symptom: a host that others did not reach was let in: the answer to what was
// asked for another one came late, and said nothing against it.
BOOST_AUTO_TEST_CASE(an_answer_about_other_ways_is_no_answer) {
  Bench bench{std::string{here}
              + R"(read -r first; read -r second; )"
                R"(case "$second" in *'"id":2'*) ;; *) exit 3;; esac; )"
                R"(echo '{"is":"tried","id":1,"ways":[]}'; sleep 0.3; )"
                R"(echo '{"is":"tried","id":2,"ways":[)"
                R"({"at":"10.0.0.3:1","why":"silent"}]}'; read -r more)"};
  bench.link->begin();
  std::string why;
  for (int i = 0; i < 1000 && !bench.link->settled(why); ++i)
    std::this_thread::sleep_for(20ms);
  BOOST_REQUIRE(bench.link->is_here());
  bench.link->try_ways({}, {"10.0.0.2:1"});
  bench.link->try_ways({}, {"10.0.0.3:1"});
  for (int i = 0; i < 1000 && !bench.link->ways(); ++i)
    std::this_thread::sleep_for(20ms);
  BOOST_REQUIRE(bench.link->ways());
  BOOST_REQUIRE(bench.link->ways()->size() == 1u);
  BOOST_TEST(bench.link->ways()->front().why == "silent");
}

BOOST_AUTO_TEST_CASE(recorders_of_a_host_come_by_the_clock_of_this_one) {
  namespace fs = std::filesystem;
  const auto folder = fs::temp_directory_path()
                      / ("troupe-brought-" + std::to_string(::getpid()));
  fs::create_directory(folder);
  std::string text, name;
  int64_t there = 0;
  {
    FlightRecorder recorder{folder.string(), "worker:3"};
    const auto now = SteadyClock::now();
    recorder.record(Activity::compute, now, now + 5us, 7);
    const auto file = fs::directory_iterator {
      folder
      } -> path();
    name = file.filename().string();
    text = text_of_flight(file.string());
    there = read_flight(file.string()).to_unix_ns;
    fs::remove(file);
  }
  BOOST_REQUIRE(text.size() > 8u);
  const auto flight = [&](const std::string& called, const std::string& part,
                          const std::string& last) {
    return R"(echo '{"is":"flight","name":")" + called + R"(","last":)" + last
           + R"(,"text":")" + part + R"("}'; )";
  };
  // Its clock is an hour behind.
  Bench bench{std::string{here} + R"(while read -r line; do case "$line" in )"
                + R"(*'"do":"clock"'*) echo "{\"is\":\"clock\",\"unix_ns\":)"
                  R"($(($(date +%s%N) - 3600000000000))}";; )"
                  R"(*'"do":"flights"'*) )"
                + flight("../worker-3.flight", text, "true")
                + flight(name, "~", "true")
                + flight(name, text.substr(0, 8), "false")
                + flight(name, text.substr(8), "true")
                + R"(echo '{"is":"flights"}';; esac; done)",
              false, folder.string()};
  bench.link->begin();
  std::string why;
  for (int i = 0; i < 1000 && !bench.link->settled(why); ++i)
    std::this_thread::sleep_for(20ms);
  BOOST_REQUIRE(bench.link->is_here());
  bench.link->ask_clock();
  for (int i = 0; i < 1000 && !bench.link->knows_clock(); ++i)
    std::this_thread::sleep_for(20ms);
  bench.link->bring_flights();
  for (int i = 0; i < 1000 && !bench.link->has_brought(); ++i)
    std::this_thread::sleep_for(20ms);
  const auto flights = read_flights(folder.string());
  const auto count = std::distance(fs::directory_iterator{folder}, {});
  fs::remove_all(folder);
  BOOST_TEST(count == 1);
  BOOST_TEST(!bench.link->has_brought_all()); // one came damaged
  BOOST_TEST(flights.passed_over == 0u);
  BOOST_REQUIRE(flights.all.size() == 1u);
  BOOST_TEST(flights.all[0].role == "worker:3");
  BOOST_REQUIRE(flights.all[0].spans.size() == 1u);
  BOOST_TEST(flights.all[0].spans[0].step == 7u);
  const auto moved = flights.all[0].to_unix_ns - there;
  constexpr int64_t second = 1'000'000'000;
  BOOST_TEST(std::abs(moved - 3'600 * second) < 10 * second);
}

namespace {

/// What a link tells of stage:1's memory, where its agent answers so.
struct Asked {
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<std::string> at;

  void ask(AgentLink& link) {
    link.tell_memory({RoleKind::stage, 1}, [this](const std::string& where) {
      const std::lock_guard guard{mutex};
      BOOST_TEST(!at); // once
      at = where;
      changed.notify_all();
    });
  }
  std::string wait() {
    std::unique_lock guard{mutex};
    BOOST_REQUIRE(changed.wait_for(guard, 20s, [&] { return at.has_value(); }));
    return *at;
  }
};

std::string memory_of_agent(const std::string& answer) {
  Asked asked;
  std::string text;
  Bench bench{std::string{here} + "read -r memory; " + answer};
  bench.link->begin();
  std::string why;
  for (int i = 0; i < 1000 && !bench.link->settled(why); ++i)
    std::this_thread::sleep_for(20ms);
  BOOST_REQUIRE(bench.link->is_here());
  asked.ask(*bench.link);
  const auto at = asked.wait();
  if (!at.empty()) {
    std::ifstream file{at};
    std::getline(file, text);
  }
  bench.link->forget({RoleKind::stage, 1});
  return at.empty() ? "nothing" : text;
}

std::string said(const std::string& message) {
  return "echo '" + message + "'; ";
}

} // namespace

BOOST_AUTO_TEST_CASE(what_an_agent_keeps_of_a_role_is_brought) {
  const auto begins =
    said(R"({"is":"memory","role":"stage:1","id":1,"bytes":5})");
  const auto first =
    said(R"({"is":"part","role":"stage:1","id":1,"at":2,"text":"bGxv"})");
  const auto second =
    said(R"({"is":"part","role":"stage:1","id":1,"at":0,"text":"aGU="})");
  const auto ends = said(R"({"is":"brought","role":"stage:1","id":1})");
  const std::string stays = "read -r more";
  // Nobody waits for another's.
  const auto others =
    said(R"({"is":"memory","role":"stage:2","id":1,"bytes":9})")
    + said(R"({"is":"brought","role":"stage:2","id":1})");
  // Nor for what an earlier answer has left.
  const auto late =
    said(R"({"is":"part","role":"stage:1","id":0,"at":0,"text":"bGxv"})")
    + said(R"({"is":"brought","role":"stage:1","id":0})");
  BOOST_TEST(
    memory_of_agent(others + begins + first + late + second + ends + stays)
    == "hello");
  BOOST_TEST(memory_of_agent(begins + first + ends + stays) == "nothing");
  BOOST_TEST(memory_of_agent(begins + first + first + stays) == "nothing");
  BOOST_TEST(memory_of_agent(first + stays) == "nothing");
  BOOST_TEST(memory_of_agent(begins + first + "exit 255") == "nothing");
}

BOOST_AUTO_TEST_CASE(a_host_that_is_lost_has_kept_nothing) {
  Bench bench{"exit 9"};
  Asked asked;
  asked.ask(*bench.link);
  BOOST_TEST(asked.wait().empty());
}

BOOST_AUTO_TEST_CASE(a_host_that_asks_again_for_the_program_gets_it_once) {
  const std::string asks = R"-(echo "troupe-node: lacks $(uname -m)"; )-";
  Bench bench{asks + asks + asks + "read -r go; sleep 0.5; exit 9", true};
  bench.link->begin();
  std::string why;
  for (int i = 0; i < 1000 && !bench.link->settled(why); ++i)
    std::this_thread::sleep_for(20ms);
  BOOST_TEST(why.ends_with("exit status 9"));
  BOOST_TEST(bench.sent == 1);
}

BOOST_AUTO_TEST_SUITE_END()
