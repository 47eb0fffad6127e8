#include "actors/journal/journal_file.hpp"
#include "actors/journal/journal_writer.hpp"
#include "kernels/base/error.hpp"

#include <boost/test/unit_test.hpp>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace troupe;

namespace journal_file {
namespace {

struct Folder {
  Folder() {
    std::string name = "/tmp/troupe-journal-XXXXXX";
    folder = mkdtemp(name.data());
    path = folder + "/journal.db";
  }
  ~Folder() { std::filesystem::remove_all(folder); }

  std::vector<JournalEvent> three() const {
    std::vector<JournalEvent> out;
    for (uint64_t i = 1; i <= 3; ++i)
      out.push_back(
        {0, 1000 + i, 1, "note", R"({"n":)" + std::to_string(i) + '}'});
    return out;
  }
  void write_three() const {
    JournalFile file{path, JournalFile::Open::create};
    auto events = three();
    file.append(events);
  }
  void write_three_more() const {
    JournalFile file{path, JournalFile::Open::resume};
    auto events = three();
    file.append(events);
  }
  /// As somebody who knows SQLite but not the checksums.
  void meddle(const std::string& statement) const {
    sqlite3* database = nullptr;
    BOOST_REQUIRE_EQUAL(sqlite3_open(path.c_str(), &database), SQLITE_OK);
    BOOST_REQUIRE_EQUAL(sqlite3_exec(database, statement.c_str(), nullptr,
                                     nullptr, nullptr),
                        SQLITE_OK);
    sqlite3_close(database);
  }
  std::string refusal(JournalFile::Open how) const {
    try {
      JournalFile file{path, how};
      file.events();
    } catch (const InputError& failure) {
      const std::string line = failure.what();
      BOOST_TEST(line.find(path) != std::string::npos);
      BOOST_TEST(line.find('\n') == std::string::npos);
      return line;
    }
    return "accepted";
  }

  std::string folder;
  std::string path;
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

} // namespace
} // namespace journal_file

BOOST_FIXTURE_TEST_SUITE(journal_file, Folder)

BOOST_AUTO_TEST_CASE(what_was_appended_is_read_back_with_its_numbers) {
  write_three();
  {
    JournalFile file{path, JournalFile::Open::resume};
    std::vector<JournalEvent> more{{0, 2000, 2, "epoch", "{}"}};
    file.append(more);
    BOOST_TEST(more.front().id == 4u);
  }
  const auto events = JournalFile{path, JournalFile::Open::read}.events();
  BOOST_REQUIRE_EQUAL(events.size(), 4u);
  for (uint64_t i = 0; i < 4; ++i)
    BOOST_TEST(events[i].id == i + 1);
  BOOST_TEST(events[1].body == R"({"n":2})");
  BOOST_TEST(events[1].unix_ms == 1002u);
  BOOST_TEST(events[3].term == 2u);
  BOOST_TEST(events[3].kind == "epoch");
}

BOOST_AUTO_TEST_CASE(a_reader_sees_what_a_writer_has_appended_so_far) {
  JournalFile file{path, JournalFile::Open::create};
  auto events = three();
  file.append(events);
  const JournalFile reader{path, JournalFile::Open::read};
  BOOST_TEST(reader.events().size() == 3u);
  events = three();
  file.append(events);
  BOOST_TEST(reader.events().size() == 6u);
}

BOOST_AUTO_TEST_CASE(a_changed_a_lost_and_an_added_event_are_found) {
  for (const auto* statement :
       {"UPDATE events SET body='{\"n\":9}' WHERE id=2",
        "UPDATE events SET unix_ms=0 WHERE id=2",
        "DELETE FROM events WHERE id=2",
        "INSERT INTO events VALUES (4, 0, 1, 'epoch', '{}', 0)"}) {
    std::filesystem::remove(path);
    write_three();
    meddle(statement);
    BOOST_TEST(has(refusal(JournalFile::Open::read), "damaged: event "));
    BOOST_TEST(has(refusal(JournalFile::Open::resume), "event "));
  }
}

BOOST_AUTO_TEST_CASE(no_flipped_byte_of_the_file_goes_unseen) {
  write_three();
  std::string bytes;
  {
    std::ifstream file{path, std::ios::binary};
    bytes.assign(std::istreambuf_iterator<char>{file}, {});
  }
  const auto at = bytes.find(R"({"n":2})");
  BOOST_REQUIRE(at != std::string::npos);
  bytes[at + 5] ^= 1;
  std::ofstream{path, std::ios::binary} << bytes;
  BOOST_TEST(
    has(refusal(JournalFile::Open::read), "does not fit its checksum"));
}

BOOST_AUTO_TEST_CASE(what_is_no_journal_is_refused_in_one_line) {
  BOOST_TEST(has(refusal(JournalFile::Open::read), "no such file"));
  BOOST_TEST(has(refusal(JournalFile::Open::resume), "no such file"));
  std::ofstream{path} << "step,loss\n1,0.5\n";
  BOOST_TEST(has(refusal(JournalFile::Open::read), "not a journal"));
  std::filesystem::remove(path);
  meddle("CREATE TABLE events (id INTEGER)");
  BOOST_TEST(has(refusal(JournalFile::Open::read), "is no journal of a run"));
}

// Symptom: `troupe events` of such a file did not end, or took all memory.
BOOST_AUTO_TEST_CASE(a_database_that_is_more_than_a_journal_is_refused) {
  const std::string view =
    "ALTER TABLE events RENAME TO others; CREATE VIEW events AS WITH RECURSIVE "
    "c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT ";
  for (const auto& statement :
       {view
          + "x AS id, unix_ms, term, kind, body, checksum FROM c JOIN others"
            " ON others.id = 1",
        view + "others.* FROM others WHERE (SELECT count(*) FROM c) > 0",
        std::string{"CREATE TRIGGER t AFTER INSERT ON events BEGIN DELETE FROM "
                    "events; END"},
        std::string{"CREATE TABLE more (id INTEGER)"},
        std::string{"CREATE INDEX i ON events (body)"},
        std::string{"ALTER TABLE events ADD COLUMN more AS (hex(body))"},
        std::string{"DROP TABLE events"}}) {
    write_three();
    meddle(statement);
    for (const auto how : {JournalFile::Open::read, JournalFile::Open::resume})
      BOOST_TEST(has(refusal(how), "is no journal of a run: it h"));
    std::filesystem::remove(path);
  }
  // A voter's has a table more.
  write_three();
  for (uint64_t term : {4, 7}) {
    JournalFile file{path, JournalFile::Open::resume};
    file.promise(term);
  }
  const JournalFile again{path, JournalFile::Open::read};
  BOOST_TEST(again.promised() == 7u);
  BOOST_TEST(again.events().size() == 3u);
}

BOOST_AUTO_TEST_CASE(an_event_longer_than_any_is_not_read) {
  write_three();
  meddle("UPDATE events SET body = zeroblob(70000000) WHERE id = 2");
  BOOST_TEST(has(refusal(JournalFile::Open::read), "too big"));
}

BOOST_AUTO_TEST_CASE(events_that_do_not_ascend_are_refused) {
  write_three();
  auto events = three();
  events[0].id = UINT64_MAX;
  events[1].id = 1;
  events[2].id = 2;
  JournalFile{path, JournalFile::Open::resume}.replace(events);
  BOOST_TEST(has(refusal(JournalFile::Open::read), "event 1 follows event"));
}

BOOST_AUTO_TEST_CASE(what_is_no_file_is_not_waited_for) {
  for (const auto* part : {"", "-journal", "-wal"}) {
    write_three();
    std::filesystem::remove(path + part);
    BOOST_REQUIRE(::mkfifo((path + part).c_str(), 0600) == 0);
    for (const auto how : {JournalFile::Open::read, JournalFile::Open::resume})
      BOOST_TEST(has(refusal(how), "is not a regular file; name a file"));
    BOOST_TEST(has(refusal(JournalFile::Open::create), "there already"));
    std::filesystem::remove(path + part);
    std::filesystem::remove(path);
  }
}

BOOST_AUTO_TEST_CASE(another_version_and_a_file_that_is_there_are_refused) {
  write_three();
  BOOST_TEST(has(refusal(JournalFile::Open::create), "is there already"));
  meddle("PRAGMA user_version=99");
  BOOST_TEST(has(refusal(JournalFile::Open::read), "of version 99"));
}

BOOST_AUTO_TEST_CASE(a_writer_syncs_in_order_and_tells) {
  {
    JournalWriter writer{
      JournalFile{path, JournalFile::Open::create}, path, {}};
    std::promise<size_t> synced;
    for (auto& event : three())
      writer.append(std::move(event), {});
    writer.append({0, 5, 1, "epoch", "{}"}, [&] {
      synced.set_value(
        JournalFile{path, JournalFile::Open::read}.events().size());
    });
    BOOST_TEST(synced.get_future().get() == 4u);
    writer.append({0, 6, 1, "over", "{}"}, {});
  }
  const auto events = JournalFile{path, JournalFile::Open::read}.events();
  BOOST_REQUIRE_EQUAL(events.size(), 5u); // the last one was not waited for
  BOOST_TEST(events.back().kind == "over");
}

BOOST_AUTO_TEST_CASE(
  a_journal_that_cannot_be_written_is_said_once_and_put_aside) {
  std::string said;
  int lines = 0;
  {
    JournalFile file{path, JournalFile::Open::create};
    meddle("DROP TABLE events");
    JournalWriter writer{std::move(file), path, [&](const std::string& line) {
                           said = line;
                           ++lines;
                         }};
    for (int i = 0; i < 3; ++i) {
      std::promise<void> gone_on;
      writer.append({0, 0, 1, "epoch", "{}"}, [&] { gone_on.set_value(); });
      gone_on.get_future().get();
    }
  }
  BOOST_TEST(lines == 1);
  BOOST_TEST(has(said, "cannot be written"));
  BOOST_TEST(!std::filesystem::exists(path));
  BOOST_TEST(std::filesystem::exists(path + ".broken"));
}

BOOST_AUTO_TEST_CASE(a_journal_goes_on_when_its_disk_has_space_again) {
  auto disk = std::make_shared<FullDisk>();
  std::mutex mutex;
  std::vector<std::string> said;
  {
    JournalWriter writer{JournalFile{path, JournalFile::Open::create}, path,
                         [&](const std::string& line) {
                           const std::lock_guard guard{mutex};
                           said.push_back(line);
                         },
                         disk};
    const auto append = [&](const char* kind) {
      std::promise<void> gone_on;
      writer.append({0, 0, 1, kind, "{}"}, [&] { gone_on.set_value(); });
      gone_on.get_future().get();
    };
    append("before");
    disk->fill(std::chrono::hours{1});
    append("meanwhile");
    append("too");
    BOOST_TEST(disk->refused() >= 2u);
    BOOST_TEST(!std::filesystem::exists(path)); // a reader would miss some
    disk->fill(std::chrono::milliseconds{0});
    const auto lines = [&] {
      const std::lock_guard guard{mutex};
      return said.size();
    };
    for (int i = 0; i < 1'000 && lines() < 2; ++i) // nobody appends
      std::this_thread::sleep_for(std::chrono::milliseconds{10});
    append("after");
  }
  BOOST_REQUIRE_EQUAL(said.size(), 2u);
  BOOST_TEST(has(said[0], "disk is full"));
  BOOST_TEST(has(said[1], "written again"));
  std::string kinds;
  for (const auto& event : JournalFile{path, JournalFile::Open::read}.events())
    kinds += event.kind + ' ';
  BOOST_TEST(kinds == "before meanwhile too after ");
}

// A cleaner of temporary files took the folder; the run then ended with its
// coordinator's next death.
BOOST_AUTO_TEST_CASE(a_journal_that_was_removed_is_written_anew) {
  std::vector<std::string> said;
  {
    JournalWriter writer{JournalFile{path, JournalFile::Open::create}, path,
                         [&](const std::string& line) {
                           said.push_back(line);
                         }};
    const auto append = [&](const char* kind) {
      std::promise<void> gone_on;
      writer.append({0, 0, 1, kind, "{}"}, [&] { gone_on.set_value(); });
      gone_on.get_future().get();
    };
    append("before");
    std::filesystem::remove_all(folder);
    append("meanwhile");
    append("after");
  }
  BOOST_REQUIRE_EQUAL(said.size(), 1u);
  BOOST_TEST(has(said[0], "was removed, and is there again"));
  std::string kinds;
  for (const auto& event : JournalFile{path, JournalFile::Open::read}.events())
    kinds += event.kind + ' ';
  BOOST_TEST(kinds == "before meanwhile after ");
}

std::vector<JournalEvent> many(uint64_t count) {
  std::vector<JournalEvent> out;
  for (uint64_t i = 0; i < count; ++i)
    out.push_back({0, 1000 + i, 1, "commits",
                   R"({"first":)" + std::to_string(10 * i)
                     + R"(,"count":10,"loss":)" + std::to_string(i) + '}'});
  return out;
}

// 28 bytes a step, a third of a gigabyte a day at 134 steps/s.
BOOST_AUTO_TEST_CASE(a_journal_does_not_grow_with_the_steps) {
  uint64_t bytes = 0;
  for (const int batches : {40, 80}) {
    std::filesystem::remove_all(folder);
    std::filesystem::create_directory(folder);
    {
      JournalWriter writer{
        JournalFile{path, JournalFile::Open::create}, path, {}};
      auto events = many(static_cast<uint64_t>(batches) * 256);
      for (size_t i = 0; i < events.size(); ++i) {
        std::promise<void> gone_on;
        const bool waits = i % 256 == 255; // a transaction has some
        writer.append(std::move(events[i]), waits ? [&] { gone_on.set_value(); }
                                                  : std::function<void()>{});
        if (waits)
          gone_on.get_future().get();
      }
    }
    const auto before = std::exchange(bytes, std::filesystem::file_size(path));
    BOOST_TEST((before == 0 || bytes <= before + before / 10));
  }
  const auto events = JournalFile{path, JournalFile::Open::resume}.events();
  BOOST_TEST(events.size() < 512u + 256u + 2 * 2048u);
  BOOST_TEST(events.back().id == 80u * 256u);
}

BOOST_AUTO_TEST_CASE(a_journal_that_was_folded_is_gone_on_with) {
  {
    JournalFile file{path, JournalFile::Open::create};
    auto events = many(2'000);
    file.append(events);
    file.fold();
    BOOST_TEST(file.events().size() < 800u);
  }
  const auto refused = [&] { return refusal(JournalFile::Open::read); };
  {
    JournalFile file{path, JournalFile::Open::resume};
    auto more = three();
    file.append(more);
    BOOST_TEST(more.back().id == 2'003u);
  }
  BOOST_TEST(refused() == "accepted");
  meddle("DELETE FROM events WHERE id = 1990");
  BOOST_TEST(has(refused(), "does not fit its checksum"));
}

BOOST_AUTO_TEST_CASE(a_journal_that_cannot_be_folded_is_gone_on_with) {
  JournalFile file{path, JournalFile::Open::create};
  auto events = many(2'000);
  file.append(events);
  meddle("UPDATE events SET checksum = checksum + 1 WHERE id = 700");
  BOOST_CHECK_THROW(file.fold(), InputError);
  auto more = three();
  file.append(more);
  BOOST_TEST(more.back().id == 2'003u);
  meddle("UPDATE events SET checksum = checksum - 1 WHERE id = 700");
  BOOST_TEST(refusal(JournalFile::Open::read) == "accepted");
}

BOOST_AUTO_TEST_CASE(events_that_are_not_decided_stay_as_they_are) {
  JournalFile file{path, JournalFile::Open::create};
  auto events = many(2'000);
  file.append(events);
  file.fold(1'200, {100, 40});
  const auto kept = file.events();
  BOOST_TEST(kept.size() < 1'200u);
  for (size_t i = 1; i <= 900; ++i)
    BOOST_TEST(kept[kept.size() - i].id == 2'001 - i);
}

// What a voter does that is behind: nothing of its own stays.
BOOST_AUTO_TEST_CASE(another_journal_takes_the_place_of_this_one) {
  auto other = three();
  for (size_t i = 0; i < 3; ++i)
    other[i].id = 10 + 7 * i;
  {
    write_three();
    JournalFile file{path, JournalFile::Open::resume};
    file.replace(other);
    auto more = three();
    file.append(more);
    BOOST_TEST(more.front().id == 25u);
  }
  const auto found = JournalFile{path, JournalFile::Open::resume}.events();
  BOOST_TEST(found.size() == 6u);
  BOOST_TEST(found.front().id == 10u);
}

BOOST_AUTO_TEST_CASE(an_empty_file_is_a_name_that_was_taken) {
  std::ofstream{path};
  BOOST_TEST(!journal_is_at(path));
  write_three();
  BOOST_TEST(journal_is_at(path));
}

BOOST_AUTO_TEST_CASE(a_database_without_anything_is_a_name_that_was_taken) {
  // As kill -9 leaves it in the maker's first moment.
  sqlite3* database = nullptr;
  BOOST_TEST(sqlite3_open(path.c_str(), &database) == SQLITE_OK);
  sqlite3_exec(database, "PRAGMA journal_mode=WAL", nullptr, nullptr, nullptr);
  sqlite3_close(database);
  BOOST_TEST(std::filesystem::file_size(path) > 0u);
  BOOST_TEST(!journal_is_at(path));
  write_three();
  BOOST_TEST(journal_is_at(path));
}

BOOST_AUTO_TEST_CASE(events_that_were_not_decided_are_cut) {
  write_three();
  JournalFile file{path, JournalFile::Open::resume};
  file.cut(1);
  auto more = three();
  more.erase(more.begin());
  more.front().body = R"({"n":22})";
  file.append(more);
  const auto found = JournalFile{path, JournalFile::Open::read}.events();
  BOOST_REQUIRE_EQUAL(found.size(), 3u);
  BOOST_TEST(found[0].body == R"({"n":1})");
  BOOST_TEST(found[1].body == R"({"n":22})");
  BOOST_TEST(found[2].id == 3u);
  file.cut(0);
  BOOST_TEST(file.events().empty());
}

BOOST_AUTO_TEST_CASE(a_promise_outlives_its_voter) {
  {
    JournalFile file{path, JournalFile::Open::create};
    BOOST_TEST(file.promised() == 0u);
    file.promise(7);
    file.promise(9);
  }
  write_three_more();
  BOOST_TEST((JournalFile{path, JournalFile::Open::resume}.promised()) == 9u);
}

BOOST_AUTO_TEST_SUITE_END()
