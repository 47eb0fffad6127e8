#include "actors/process/role_death.hpp"

#include <boost/test/unit_test.hpp>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

// The kernel's kill for want of memory was "signal 9 (Killed)", as anybody's.

using namespace troupe;

namespace role_death {
namespace {

namespace fs = std::filesystem;

/// A control group of version 2 with a counter of kills.
struct Group {
  Group() {
    auto pattern = (fs::temp_directory_path() / "troupe-death-XXXXXX").string();
    BOOST_REQUIRE(mkdtemp(pattern.data()) != nullptr);
    root = pattern;
    write("/proc/self/cgroup", "0::/job");
    write("/proc/self/mountinfo",
          "41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw");
    write("/sys/fs/cgroup/job/memory.max", "536870912");
    kills(3); // before this run
  }
  ~Group() {
    std::error_code ignored;
    fs::remove_all(root, ignored);
  }
  void write(const std::string& file, const std::string& text) const {
    fs::create_directories(fs::path{root + file}.parent_path());
    std::ofstream{root + file} << text << '\n';
  }
  void kills(int count) const {
    std::string text{"max 7\noom_kill "};
    text += std::to_string(count);
    write("/sys/fs/cgroup/job/memory.events", text);
  }
  std::string root;
};

ChildProcesses::Exit killed(int signal) {
  ChildProcesses::Exit exit;
  exit.status = -1;
  exit.signal = signal;
  exit.lived_ms = 700;
  return exit;
}

ChildProcesses::Exit ended(int status, std::deque<std::string> lines) {
  ChildProcesses::Exit exit;
  exit.status = status;
  exit.last_lines = std::move(lines);
  return exit;
}

} // namespace
} // namespace role_death

BOOST_FIXTURE_TEST_SUITE(role_death, Group)

BOOST_AUTO_TEST_CASE(each_kill_for_want_of_memory_is_told_as_one) {
  RoleDeaths deaths{root};
  const auto kill = deaths.explain(killed(SIGKILL));
  BOOST_TEST(kill.how == "signal 9 (Killed)");
  BOOST_TEST(!kill.life.memory);
  BOOST_TEST(!kill.life.by_itself);
  BOOST_TEST(kill.life.ms == 700u);
  kills(5); // two roles at once
  for (int role = 0; role < 2; ++role) {
    const auto memory = deaths.explain(killed(SIGKILL));
    BOOST_TEST(memory.how == "ended by the kernel: memory, limit 512 MiB");
    BOOST_TEST(memory.life.memory);
  }
  BOOST_TEST(!deaths.explain(killed(SIGKILL)).life.memory);
}

BOOST_AUTO_TEST_CASE(an_allocation_that_failed_is_want_of_memory_too) {
  RoleDeaths deaths{root};
  for (const auto* line :
       {"troupe: worker:0: out of memory: limit 1 GiB (ulimit -v)",
        "  what():  std::bad_alloc"}) {
    const auto death = deaths.explain(ended(1, {line, "and another line"}));
    BOOST_TEST(death.life.memory);
    BOOST_TEST(death.how == std::string{"exit status 1: "} + line);
  }
}

BOOST_AUTO_TEST_CASE(other_ends_are_told_with_the_last_line) {
  RoleDeaths deaths{root};
  const auto death =
    deaths.explain(ended(1, {"first", "troupe: no such file"}));
  BOOST_TEST(death.how == "exit status 1: troupe: no such file");
  BOOST_TEST(death.life.by_itself);
  BOOST_TEST(!death.life.memory);
  BOOST_TEST(!death.life.input);
  BOOST_TEST(
    deaths.explain(ended(65, {"troupe: a.csv: ends early"})).life.input);
  BOOST_TEST(deaths.explain(killed(SIGSEGV)).life.by_itself);
  BOOST_TEST(!deaths.explain(killed(SIGTERM)).life.by_itself);
}

BOOST_AUTO_TEST_CASE(a_program_that_did_not_start_is_told_as_that) {
  RoleDeaths deaths{root};
  auto exit = ended(127, {});
  exit.refused = ENOENT;
  BOOST_TEST(deaths.explain(exit).how
             == "its program did not start: No such file or directory");
  BOOST_TEST(deaths.explain(ended(127, {"ld.so: libx.so: not found"})).how
             == "exit status 127: its program did not start: ld.so: libx.so: "
                "not found");
}

BOOST_AUTO_TEST_SUITE_END()
