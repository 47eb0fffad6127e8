#include "actors/process/child_processes.hpp"

#include <boost/test/unit_test.hpp>
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <future>
#include <thread>

using namespace troupe;

namespace child_processes {
namespace {

constexpr auto deadline = std::chrono::seconds{10};

struct Bench {
  ChildProcesses::Exit run(std::vector<std::string> arguments) {
    auto done = std::make_shared<std::promise<ChildProcesses::Exit>>();
    auto exit = done->get_future();
    children.start(
      std::move(arguments), -1,
      [this](const std::string& line) { lines.push_back(line); },
      [done](const ChildProcesses::Exit& x) { done->set_value(x); });
    BOOST_REQUIRE((exit.wait_for(deadline) == std::future_status::ready));
    return exit.get();
  }

  ChildProcesses children;
  std::vector<std::string> lines;
};

} // namespace
} // namespace child_processes

BOOST_FIXTURE_TEST_SUITE(child_processes, Bench)

BOOST_AUTO_TEST_CASE(output_arrives_line_by_line_and_the_status_is_reported) {
  auto exit =
    run({"/bin/sh", "-c", "echo one; echo two >&2; printf x; exit 7"});
  BOOST_TEST(exit.status == 7);
  BOOST_TEST(exit.signal == 0);
  BOOST_TEST(lines == (std::vector<std::string>{"one", "two", "x"}),
             boost::test_tools::per_element());
  BOOST_TEST(exit.describe() == "exit status 7");
}

BOOST_AUTO_TEST_CASE(a_killed_child_reports_its_signal) {
  auto exit = run({"/bin/sh", "-c", "kill -9 $$"});
  BOOST_TEST(exit.signal == SIGKILL);
  BOOST_TEST(exit.describe() == "signal 9 (Killed)");
}

BOOST_AUTO_TEST_CASE(a_program_that_does_not_exist_is_an_exit_not_a_hang) {
  const auto exit = run({"/nonexistent/program"});
  BOOST_TEST(exit.status == 127);
  BOOST_TEST(exit.describe()
             == "its program did not start: No such file or directory");
}

// A program that was replaced or removed during a run could not be started
// again.
BOOST_AUTO_TEST_CASE(an_open_image_runs_whatever_became_of_its_file) {
  namespace fs = std::filesystem;
  const auto copy = fs::temp_directory_path()
                    / ("troupe-sh-" + std::to_string(getpid()));
  fs::copy_file(fs::canonical("/bin/sh"), copy);
  const int image = open(copy.c_str(), O_PATH | O_CLOEXEC);
  BOOST_REQUIRE(image >= 0);
  fs::remove(copy);
  ChildProcesses started{{image, false}};
  std::promise<std::string> said;
  started.start({copy.string(), "-c", "echo $0 is here", "it"}, -1,
                [&](const std::string& line) { said.set_value(line); }, {});
  auto line = said.get_future();
  BOOST_REQUIRE((line.wait_for(deadline) == std::future_status::ready));
  BOOST_TEST(line.get() == "it is here");
  BOOST_TEST(started.wait_all(10'000));
  close(image);
}

BOOST_AUTO_TEST_CASE(only_the_last_lines_are_kept) {
  auto exit = run({"/bin/sh", "-c", "for i in $(seq 100); do echo $i; done"});
  BOOST_TEST(exit.last_lines.size() == 20u);
  BOOST_TEST(exit.last_lines.back() == "100");
}

// Symptom: a host's agent, whose lines bring what roles have kept, had 20 of
// them in its launcher's memory, of up to a megabyte each.
BOOST_AUTO_TEST_CASE(of_a_long_line_the_first_part_is_kept) {
  ChildProcesses::Options options;
  options.longest_line = size_t{1} << 20;
  ChildProcesses agents{options};
  std::promise<ChildProcesses::Exit> ended;
  std::atomic<size_t> told{0};
  agents.start(
    {"/bin/sh", "-c", "head -c 500000 /dev/zero | tr '\\0' A"}, -1,
    [&](const std::string& line) { told = line.size(); },
    [&](const ChildProcesses::Exit& exit) { ended.set_value(exit); });
  auto exit = ended.get_future();
  BOOST_TEST(agents.wait_all(10'000));
  BOOST_REQUIRE((exit.wait_for(deadline) == std::future_status::ready));
  BOOST_TEST(told == 500'000u);
  BOOST_TEST(exit.get().last_lines.back().size() == 8192u);
}

BOOST_AUTO_TEST_CASE(waiting_has_a_deadline_and_the_destructor_kills) {
  {
    ChildProcesses sleepers;
    sleepers.start({"/bin/sleep", "1000"}, -1, {}, {});
    BOOST_TEST(!sleepers.wait_all(50));
  } // returns: the child is killed and reaped
  BOOST_TEST(children.wait_all(1000));
}

BOOST_AUTO_TEST_CASE(a_signal_waits_until_the_child_watches_for_it) {
  // Symptom: a role that was told to end in its first moments died of it.
  const auto exit = run({"/bin/sh", "-c", "kill -TERM $$; exit 3"});
  BOOST_TEST(exit.signal == 0);
  BOOST_TEST(exit.status == 3);
}

BOOST_AUTO_TEST_CASE(children_stand_still_and_go_on_and_none_starts_meanwhile) {
  auto done = std::make_shared<std::promise<void>>();
  const auto told = [done](const std::string&) { done->set_value(); };
  children.pause(true);
  std::thread late{[&] { children.start({"/bin/echo", "x"}, -1, told, {}); }};
  auto line = done->get_future();
  BOOST_CHECK(line.wait_for(std::chrono::milliseconds{50})
              == std::future_status::timeout);
  children.pause(false);
  late.join();
  BOOST_CHECK(line.wait_for(deadline) == std::future_status::ready);
}

// A launcher on hosts has two of them, the first process of a container one
// that buries whomever the system gives to it.
BOOST_AUTO_TEST_CASE(who_buries_orphans_leaves_the_children_of_others) {
  const ChildProcesses undertaker{{-1, true}};
  for (int i = 0; i < 50; ++i)
    BOOST_REQUIRE_EQUAL(run({"/bin/sh", "-c", "exit 7"}).status, 7);
}

BOOST_AUTO_TEST_CASE(an_end_that_nobody_is_told_of_is_no_success) {
  const auto before = std::signal(SIGCHLD, SIG_IGN);
  const auto exit = run({"/bin/sh", "-c", "exit 0"});
  std::signal(SIGCHLD, before);
  BOOST_TEST(exit.status == -1);
  BOOST_TEST(exit.describe() == "an end that this process was not told of");
}

BOOST_AUTO_TEST_SUITE_END()
