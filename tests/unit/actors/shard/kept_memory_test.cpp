#include "actors/shard/kept_memory.hpp"
#include "actors/shard/shard_store.hpp"
#include "tests/unit/actors/small_job.hpp"

#include <boost/test/unit_test.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <set>
#include <string>
#include <thread>

using namespace troupe;

namespace kept_memory {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t own_job = 11, other_job = 12;

std::set<std::string> files() {
  std::set<std::string> out;
  for (const auto& entry : fs::directory_iterator{"/dev/shm"})
    if (entry.path().filename().string().starts_with("troupe-"))
      out.insert(entry.path().string());
  return out;
}

/// A coordinator's address that no other test has, and files of its roles.
struct Bench {
  const std::string place = "test-" + std::to_string(::getpid()) + ":1";
  const std::string elsewhere = "test-" + std::to_string(::getpid()) + ":2";
  const Job job{test::small_job(), 500};
  std::set<std::string> made;

  ~Bench() {
    for (const auto& path : made)
      ::unlink(path.c_str());
  }

  /// Where a shard that has just been killed left its states.
  std::string left(const std::string& coordinator, uint32_t shard,
                   uint64_t of) {
    const auto before = files();
    KeptMemory kept{coordinator, {RoleKind::shard, shard}};
    BOOST_REQUIRE_MESSAGE(kept.descriptor() >= 0, kept.why());
    const ShardStore store{job, {0}, of, kept.descriptor()};
    for (const auto& path : files())
      if (!before.contains(path) && is_at(kept.descriptor(), path)) {
        made.insert(path);
        return path;
      }
    BOOST_FAIL("it made no file");
    return {};
  }

  static bool is_at(int descriptor, const std::string& path) {
    struct stat one {
    }, other{};
    return ::fstat(descriptor, &one) == 0 && ::stat(path.c_str(), &other) == 0
           && one.st_ino == other.st_ino;
  }

  static void age(const std::string& path) {
    fs::last_write_time(path, fs::file_time_type::clock::now()
                                - std::chrono::hours{25});
  }
};

} // namespace
} // namespace kept_memory

BOOST_FIXTURE_TEST_SUITE(kept_memory, kept_memory::Bench)

// Symptom: states of shards that were killed with all the others stayed in the
// host's memory for good.
BOOST_AUTO_TEST_CASE(what_another_job_left_at_this_address_goes_at_once) {
  const auto own = left(place, 0, own_job);
  const auto other = left(place, 1, other_job);
  const auto far = left(elsewhere, 0, other_job);
  // A job beside this test, which looks as well, may hold one for a moment.
  for (int i = 0; i < 100 && fs::exists(other); ++i) {
    sweep_kept_memory(place, own_job);
    std::this_thread::sleep_for(std::chrono::milliseconds{20});
  }
  BOOST_TEST(fs::exists(own));
  BOOST_TEST(!fs::exists(other));
  BOOST_TEST(fs::exists(far));
  // The same shard again finds its states.
  const KeptMemory again{place, {RoleKind::shard, 0}};
  BOOST_TEST(ShardStore::is_of(again.descriptor(), own_job));
}

BOOST_AUTO_TEST_CASE(what_nobody_has_held_for_a_day_goes_wherever_it_is_from) {
  const auto far = left(elsewhere, 0, other_job);
  age(far); // of a shard that was held until a moment ago
  sweep_kept_memory(place, own_job);
  BOOST_TEST(fs::exists(far));
  sweep_kept_memory(place, own_job);
  BOOST_TEST(fs::exists(far));
  age(far);
  { const KeptMemory again{elsewhere, {RoleKind::shard, 0}}; }
  sweep_kept_memory(place, own_job);
  BOOST_TEST(fs::exists(far));
  age(far);
  sweep_kept_memory(place, own_job);
  BOOST_TEST(!fs::exists(far));
}

BOOST_AUTO_TEST_CASE(what_a_process_holds_stays) {
  const auto held = left(place, 0, other_job);
  const KeptMemory kept{place, {RoleKind::shard, 0}};
  BOOST_TEST(is_at(kept.descriptor(), held));
  for (int i = 0; i < 2; ++i) {
    age(held);
    sweep_kept_memory(place, own_job);
    BOOST_TEST(fs::exists(held));
  }
}

BOOST_AUTO_TEST_SUITE_END()
