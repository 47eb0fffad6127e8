#include "kernels/base/control_group.hpp"

#include <boost/test/unit_test.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

// Half a core of a control group was taken for as many devices as the machine
// has processors.

using namespace troupe;

namespace control_group {
namespace {

namespace fs = std::filesystem;

/// The root of a file system in which /proc and the groups say what is written.
struct Root {
  Root() {
    auto pattern =
      (fs::temp_directory_path() / "troupe-groups-XXXXXX").string();
    BOOST_REQUIRE(mkdtemp(pattern.data()) != nullptr);
    path = pattern;
  }
  ~Root() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }

  void write(const std::string& file, const std::string& text) {
    const auto whole = path + file;
    fs::create_directories(fs::path{whole}.parent_path());
    std::ofstream{whole} << text << '\n';
  }

  /// Version 2, seen from its root.
  void unified(const std::string& own) {
    write("/proc/self/cgroup", "0::" + own);
    write("/proc/self/mountinfo",
          "22 1 8:1 / / rw,relatime - ext4 /dev/vda rw\n"
          "41 31 0:38 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 "
          "rw,nsdelegate");
  }

  /// Version 1, seen as `seen` from inside of it.
  void version_1(const std::string& own, const std::string& seen) {
    write("/proc/self/cgroup",
          "4:memory:" + own + "\n3:cpu,cpuacct:" + own + "\n0::/");
    write("/proc/self/mountinfo",
          "32 31 0:29 " + seen
            + " /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
              "35 31 0:32 "
            + seen + " /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
            + "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw");
  }

  ControlGroup read() const { return read_control_group(path); }

  std::string path;
};

} // namespace
} // namespace control_group

BOOST_FIXTURE_TEST_SUITE(control_group, Root)

BOOST_AUTO_TEST_CASE(nothing_that_can_be_read_limits_nothing) {
  BOOST_TEST(read().processors == 0);
  BOOST_TEST(read().memory_bytes == 0u);
  BOOST_TEST(!count_memory_kills(path));
}

BOOST_AUTO_TEST_CASE(the_least_of_a_group_and_those_above_holds) {
  unified("/jobs/one");
  write("/sys/fs/cgroup/jobs/one/cpu.max", "max 100000");
  write("/sys/fs/cgroup/jobs/cpu.max", "50000 100000");
  write("/sys/fs/cgroup/jobs/one/memory.max", "536870912");
  write("/sys/fs/cgroup/jobs/memory.max", "1073741824");
  write("/sys/fs/cgroup/jobs/pids.max", "40");
  BOOST_TEST(read().processors == 0.5);
  BOOST_TEST(read().memory_bytes == 512u << 20);
  BOOST_TEST(read().tasks == 40u);
}

BOOST_AUTO_TEST_CASE(a_group_without_a_limit_has_none) {
  unified("/jobs");
  write("/sys/fs/cgroup/jobs/cpu.max", "max 100000");
  write("/sys/fs/cgroup/jobs/memory.max", "max");
  BOOST_TEST(read().processors == 0);
  BOOST_TEST(read().memory_bytes == 0u);
  BOOST_TEST(read().tasks == 0u);
}

BOOST_AUTO_TEST_CASE(version_1_is_read_as_well) {
  version_1("/batch", "/");
  write("/sys/fs/cgroup/cpu/batch/cpu.cfs_quota_us", "150000");
  write("/sys/fs/cgroup/cpu/batch/cpu.cfs_period_us", "100000");
  write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1");
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
  write("/sys/fs/cgroup/memory/batch/memory.limit_in_bytes", "1048576");
  BOOST_TEST(read().processors == 1.5);
  BOOST_TEST(read().memory_bytes == 1u << 20);
}

BOOST_AUTO_TEST_CASE(a_container_sees_its_group_as_the_mount) {
  version_1("/docker/abc", "/docker/abc");
  write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "25000");
  write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "50000");
  BOOST_TEST(read().processors == 0.5);
  unified("/../../elsewhere");
  write("/sys/fs/cgroup/cpu.max", "30000 10000");
  BOOST_TEST(read().processors == 3);
}

BOOST_AUTO_TEST_CASE(kills_for_want_of_memory_are_those_of_the_own_group) {
  unified("/jobs/one");
  write("/proc/vmstat", "pgfault 7\noom_kill 9\nzswpin 0");
  BOOST_TEST(count_memory_kills(path).value() == 9u);
  write("/sys/fs/cgroup/jobs/one/memory.events",
        "low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 0");
  BOOST_TEST(count_memory_kills(path).value() == 2u);
  version_1("/batch", "/");
  write("/sys/fs/cgroup/memory/batch/memory.oom_control",
        "oom_kill_disable 0\nunder_oom 0\noom_kill 4");
  BOOST_TEST(count_memory_kills(path).value() == 4u);
}

BOOST_AUTO_TEST_CASE(whole_processors_are_used_and_one_at_least) {
  const auto within = [](uint32_t allowed, double processors) {
    return processors_within(allowed, {processors, 0, 0});
  };
  BOOST_TEST(within(8, 0) == 8u);
  BOOST_TEST(within(8, 0.5) == 1u);
  BOOST_TEST(within(8, 1.5) == 1u);
  BOOST_TEST(within(8, 2) == 2u);
  BOOST_TEST(within(2, 64) == 2u);
}

BOOST_AUTO_TEST_CASE(bytes_are_printed_in_their_units) {
  BOOST_TEST(in_units(17) == "17 bytes");
  BOOST_TEST(in_units(512u << 20) == "512 MiB");
  BOOST_TEST(in_units(2'000'000'000) == "1.9 GiB");
}

BOOST_AUTO_TEST_SUITE_END()
