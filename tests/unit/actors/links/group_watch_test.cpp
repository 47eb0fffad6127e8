#include "tests/unit/actors/links/link_party.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include <atomic>

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(group_watch)

// --- death -------------------------------------------------------------------

namespace {

/// A member in a process of its own, which forms the group as rank 1 and stays.
struct OtherProcess {
  explicit OtherProcess(LinkOptions with) {
    int down[2], up[2];
    BOOST_REQUIRE(::pipe2(down, O_CLOEXEC) == 0);
    BOOST_REQUIRE(::pipe2(up, O_CLOEXEC) == 0);
    to = Descriptor{down[1]};
    from = Descriptor{up[0]};
    pid = ::fork();
    if (pid == 0)
      stay(down[0], up[1], with);
    ::close(down[0]);
    ::close(up[1]);
    endpoint = hear(from.get());
  }
  ~OtherProcess() { end(); }

  void end() {
    if (pid <= 0)
      return;
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    pid = 0;
  }

  static std::string hear(int from) {
    std::string text(1024, '\0');
    text.resize(static_cast<size_t>(
      std::max<ssize_t>(::read(from, text.data(), 1024), 0)));
    return text;
  }

  [[noreturn]] static void stay(int from, int to, const LinkOptions& with) {
    ::alarm(60);
    Party party{0};
    party.nodes.push_back(std::make_unique<LinkNode>(as(with, 1)));
    const auto own = party.nodes[0]->endpoint();
    if (::write(to, own.data(), own.size()) < 0)
      ::_exit(1);
    auto request = party.request(0);
    request.members[0].name = "worker:1";
    request.members.insert(request.members.begin(), {hear(from), "worker:0"});
    request.rank = 1;
    std::promise<GroupOutcome> done;
    party.nodes[0]->form_group(std::move(request), [&](GroupOutcome outcome) {
      done.set_value(std::move(outcome));
    });
    auto outcome = done.get_future().get();
    for (;;)
      ::pause();
  }

  Descriptor to;
  Descriptor from;
  std::string endpoint;
  pid_t pid = 0;
};

} // namespace

BOOST_AUTO_TEST_CASE(the_death_of_a_peers_process_is_told_at_once) {
  NothingLeft nothing_left;
  auto check = [](LinkOptions with, const char* carrier) {
    OtherProcess other{with};
    Party party{1, with};
    auto request = party.request(0);
    request.members.push_back({other.endpoint, "worker:1"});
    struct Told {
      Clock::time_point at;
      uint32_t rank;
      std::string reason;
    };
    auto told = std::make_shared<std::promise<Told>>();
    request.on_down = [told](uint32_t rank, const std::string& reason) {
      told->set_value({Clock::now(), rank, reason});
    };
    auto future = party.ask(std::move(request));
    const auto& own = party.nodes[0]->endpoint();
    BOOST_REQUIRE(::write(other.to.get(), own.data(), own.size()) > 0);
    auto outcome = future.get();
    BOOST_TEST_REQUIRE(outcome.error == "");
    BOOST_TEST(outcome.carriers[1] == carrier);
    const auto begin = Clock::now();
    ::kill(other.pid, SIGKILL);
    auto end = told->get_future();
    BOOST_REQUIRE((end.wait_for(patience) == std::future_status::ready));
    const auto heard = end.get();
    BOOST_TEST(heard.rank == 1u);
    BOOST_TEST(heard.reason.find("worker:1") != std::string::npos,
               heard.reason);
    const std::chrono::duration<double, std::milli> passed = heard.at - begin;
    BOOST_TEST_MESSAGE(carrier << ": told after " << passed.count() << " ms");
  };
  check(options(LinkChoice::shm), "shm");
  check(options(LinkChoice::tcp, LinkEncryption::off), "tcp");
  check(options(LinkChoice::tcp, LinkEncryption::on), "tcp+tls");
  BOOST_TEST(nothing_left.check());
}

BOOST_AUTO_TEST_CASE(bytes_that_are_not_read_do_not_wake_the_watch) {
  Party party{2, options(LinkChoice::tcp)};
  std::atomic<int> downs{0};
  auto first = party.request(0);
  first.on_down = [&](uint32_t, const std::string&) { ++downs; };
  auto one = party.ask(std::move(first));
  auto other = party.ask(party.request(1));
  auto mine = one.get();
  auto theirs = other.get();
  send_all(*theirs.sockets[0], std::string(1000, 'x'));
  theirs.sockets[0].reset();
  BOOST_TEST(downs == 0); // the other's watch still holds the connection
  theirs.group.reset();
  BOOST_TEST(soon([&] { return downs == 1; }));
  BOOST_TEST(receive(*mine.sockets[1], 1000) == std::string(1000, 'x'));
}

BOOST_AUTO_TEST_CASE(who_cuts_a_link_is_told_of_by_the_other_side_alone) {
  Party party{2, options(LinkChoice::tcp)};
  std::atomic<int> here{0}, there{0};
  auto first = party.request(0);
  first.on_down = [&](uint32_t, const std::string&) { ++here; };
  auto second = party.request(1);
  second.on_down = [&](uint32_t, const std::string&) { ++there; };
  auto one = party.ask(std::move(first));
  auto other = party.ask(std::move(second));
  auto mine = one.get();
  auto theirs = other.get();
  mine.sockets[1]->cut();
  BOOST_TEST(soon([&] { return there == 1; }));
  BOOST_TEST(here == 0);
}

BOOST_AUTO_TEST_CASE(a_group_that_was_ended_hears_nothing_more) {
  Party party{2};
  std::atomic<int> downs{0};
  auto first = party.request(0);
  first.on_down = [&](uint32_t, const std::string&) { ++downs; };
  auto one = party.ask(std::move(first));
  auto other = party.ask(party.request(1));
  auto mine = one.get();
  auto theirs = other.get();
  mine.group.reset();
  theirs.group.reset();
  party.nodes[1].reset();
  party.nodes[0].reset();
  BOOST_TEST(downs == 0);
}

BOOST_AUTO_TEST_SUITE_END()
