#include "actors/journal/journal_file.hpp"
#include "apps/process/followed_journal.hpp"

#include <boost/test/unit_test.hpp>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(followed_journal)

namespace {

constexpr uint32_t virtual_ranks = 8;
constexpr auto three_workers =
  R"({"members":{"worker:0":1,"worker:1":1,"worker:2":1},"chains":[]})";
constexpr auto two_workers =
  R"({"members":{"worker:1":1,"worker:2":1},"chains":[]})";

/// A journal that others write.
struct Written {
  Written() {
    std::string name = "/tmp/troupe-followed-XXXXXX";
    folder = mkdtemp(name.data());
    path = folder + "/journal.db";
    file = std::make_unique<JournalFile>(path, JournalFile::Open::create);
  }
  ~Written() { std::filesystem::remove_all(folder); }

  void add(const std::string& kind, const std::string& body) const {
    std::vector<JournalEvent> events{{0, 1000, 1, kind, body}};
    file->append(events);
  }

  std::string folder;
  std::string path;
  std::unique_ptr<JournalFile> file;
};

FollowedJournal followed(const Written& journal) {
  return FollowedJournal{journal.path, Plan{}};
}

} // namespace

// As many as the largest share of those who took part has.
BOOST_AUTO_TEST_CASE(a_lost_worker_had_its_own_ranks) {
  const Written journal;
  journal.add("epoch", three_workers);
  journal.add("death", R"({"role":"worker:0"})");
  journal.add("death", R"({"role":"ps:0"})");
  auto seen = followed(journal);
  seen.read();
  BOOST_TEST(seen.leaves_of_the_lost(virtual_ranks, false) == 3u);
  journal.add("epoch", two_workers);
  journal.add("death", R"({"role":"worker:1"})");
  seen.read();
  BOOST_TEST(seen.leaves_of_the_lost(virtual_ranks, false) == 3u + 4);
}

// Who goes by parts gives its gradients away, and an owner that is lost, or a
// link, had those of all.
BOOST_AUTO_TEST_CASE(an_epoch_may_lose_gradients_of_all_ranks) {
  const Written journal;
  auto seen = followed(journal);
  seen.read();
  BOOST_TEST(seen.leaves_of_the_lost(virtual_ranks, true) == 0u);
  journal.add("epoch", three_workers);
  journal.add("death", R"({"role":"worker:0"})");
  seen.read();
  BOOST_TEST(seen.leaves_of_the_lost(virtual_ranks, true) == 0u);
  journal.add("epoch", two_workers);
  journal.add("epoch", three_workers);
  seen.read();
  BOOST_TEST(seen.leaves_of_the_lost(virtual_ranks, true) == 2 * virtual_ranks);
}

BOOST_AUTO_TEST_SUITE_END()
