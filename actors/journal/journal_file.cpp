#include "actors/journal/journal_file.hpp"

#include "actors/journal/folding.hpp"
#include "kernels/base/crc32c.hpp"
#include "kernels/base/error.hpp"
#include "kernels/files/strict_json.hpp"
#include "kernels/files/text_lines.hpp"

#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

namespace troupe {
namespace {

constexpr int application = 0x54524a31; // "TRJ1"
constexpr int schema = 3;
constexpr int schema_without_gaps = 2; ///< in the events' numbers
constexpr int busy_ms = 2'000;
constexpr int longest_event = 64 << 20;
/// Of all events: folding keeps a run's far below.
constexpr uint64_t max_bytes = uint64_t{1} << 30;

/// All that a journal consists of, in SQLite's words.
constexpr const char* events_table =
  "CREATE TABLE events (id INTEGER PRIMARY KEY, unix_ms INTEGER NOT NULL, term "
  "INTEGER NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL, checksum INTEGER "
  "NOT NULL)";
constexpr const char* promise_table = ///< of a voter
  "CREATE TABLE promise (id INTEGER PRIMARY KEY, term INTEGER NOT NULL)";

/// One statement; its columns and parameters are numbered as SQLite does.
class Statement {
public:
  Statement(sqlite3* database, const char* text) : database_(database) {
    if (sqlite3_prepare_v2(database, text, -1, &statement_, nullptr)
        != SQLITE_OK)
      throw InputError(sqlite3_errmsg(database));
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  void bind(int at, uint64_t value) {
    sqlite3_bind_int64(statement_, at, static_cast<sqlite3_int64>(value));
  }
  void bind(int at, const std::string& value) {
    sqlite3_bind_text(statement_, at, value.data(),
                      static_cast<int>(value.size()), SQLITE_TRANSIENT);
  }
  bool step() {
    const auto result = sqlite3_step(statement_);
    if (result != SQLITE_ROW && result != SQLITE_DONE)
      throw InputError(sqlite3_errmsg(database_));
    return result == SQLITE_ROW;
  }
  void reset() { sqlite3_reset(statement_); }
  uint64_t number(int column) const {
    return static_cast<uint64_t>(sqlite3_column_int64(statement_, column));
  }
  std::string text(int column) const {
    const auto* bytes = sqlite3_column_blob(statement_, column);
    const auto size = sqlite3_column_bytes(statement_, column);
    return bytes ? std::string{static_cast<const char*>(bytes),
                               static_cast<size_t>(size)}
                 : std::string{};
  }

private:
  sqlite3* database_;
  sqlite3_stmt* statement_ = nullptr;
};

ssize_t no_space(int, const void*, size_t) {
  errno = ENOSPC;
  return -1;
}

ssize_t no_space_at(int, const void*, size_t, off_t) {
  errno = ENOSPC;
  return -1;
}

/// While it lives, SQLite's calls that write do as those of a full disk.
class NoSpace {
public:
  NoSpace() {
    put("write", reinterpret_cast<sqlite3_syscall_ptr>(&no_space));
    for (const char* name : {"pwrite", "pwrite64"})
      put(name, reinterpret_cast<sqlite3_syscall_ptr>(&no_space_at));
  }
  ~NoSpace() {
    for (const char* name : {"write", "pwrite", "pwrite64"})
      put(name, nullptr); // the system's own again
  }
  NoSpace(const NoSpace&) = delete;
  NoSpace& operator=(const NoSpace&) = delete;

private:
  static void put(const char* name, sqlite3_syscall_ptr call) {
    auto* files = sqlite3_vfs_find(nullptr);
    files->xSetSystemCall(files, name, call);
  }
};

uint32_t check_of(uint32_t before, const JournalEvent& event) {
  const auto text =
    std::to_string(event.id) + '|' + std::to_string(event.unix_ms) + '|'
    + std::to_string(event.term) + '|' + event.kind + '|' + event.body;
  return crc32c(before, text.data(), text.size());
}

/// The first of a database's files that is something else, which may be waited
/// for without end; empty: none.
std::string no_file_of(const std::string& path) {
  for (const auto* part : {"", "-journal", "-wal", "-shm"}) {
    struct stat about {};
    if (::stat((path + part).c_str(), &about) == 0 && !S_ISREG(about.st_mode))
      return path + part;
  }
  return {};
}

/// Whether it is a database without anything in it: its maker was killed before
/// its first transaction was whole.
bool is_unborn(const std::string& path) {
  if (!no_file_of(path).empty())
    return false;
  sqlite3* database = nullptr;
  bool empty = false;
  if (sqlite3_open_v2(path.c_str(), &database, SQLITE_OPEN_READWRITE, nullptr)
      == SQLITE_OK)
    try {
      sqlite3_busy_timeout(database, busy_ms);
      Statement tables{database, "SELECT COUNT(*) FROM sqlite_master"};
      Statement id{database, "PRAGMA application_id"};
      empty = tables.step() && tables.number(0) == 0 && id.step()
              && id.number(0) == 0;
    } catch (const InputError&) { // whoever opens it says what is wrong
    }
  sqlite3_close_v2(database);
  return empty;
}

} // namespace

bool journal_is_at(const std::string& path) {
  std::error_code failure;
  const auto bytes = std::filesystem::file_size(path, failure);
  return failure ? failure != std::errc::no_such_file_or_directory
                 : bytes > 0 && !is_unborn(path);
}

struct JournalFile::Impl {
  std::string path;
  sqlite3* database = nullptr;
  uint64_t last = 0; ///< event's number
  uint32_t check = 0;
  bool gaps = true; ///< some events may have been folded into others

  ~Impl() { sqlite3_close_v2(database); }

  [[noreturn]] void refuse(const std::string& why) const {
    throw InputError("journal " + path + ": " + why);
  }

  void run(const char* text) const {
    char* why = nullptr;
    if (sqlite3_exec(database, text, nullptr, nullptr, &why) == SQLITE_OK)
      return;
    std::string line = why ? why : sqlite3_errmsg(database);
    sqlite3_free(why);
    throw InputError(line);
  }

  uint64_t pragma(const char* text) const {
    Statement statement{database, text};
    return statement.step() ? statement.number(0) : 0;
  }

  void open(Open how) {
    namespace fs = std::filesystem;
    std::error_code failure;
    const bool there = how == Open::create ? journal_is_at(path)
                                           : fs::exists(path, failure);
    if (how == Open::create && there)
      refuse("is there already, perhaps with another run (`troupe events "
             + path + "` shows it); remove it or name another file");
    if (how != Open::create && !there)
      refuse("there is no such file");
    if (const auto other = no_file_of(path); !other.empty())
      refuse((other == path ? "" : other + " ")
             + "is not a regular file; name a file");
    const auto flags = how == Open::read
                         ? SQLITE_OPEN_READONLY
                         : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    if (sqlite3_open_v2(path.c_str(), &database, flags, nullptr) != SQLITE_OK)
      refuse(sqlite3_errmsg(database));
    sqlite3_busy_timeout(database, busy_ms);
    sqlite3_extended_result_codes(database, 1);
    sqlite3_limit(database, SQLITE_LIMIT_LENGTH, longest_event);
    run("PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON");
    if (how == Open::create)
      make();
    if (pragma("PRAGMA application_id") != application)
      refuse("is no journal of a run");
    const auto found = pragma("PRAGMA user_version");
    if (found != schema && found != schema_without_gaps)
      refuse("is of version " + std::to_string(found) + ", this program reads "
             + std::to_string(schema) + ": use the troupe that wrote it");
    gaps = found == schema;
    check_schema();
    if (how != Open::read)
      run("PRAGMA synchronous=FULL");
  }

  /// A file from elsewhere may hold views that never end, triggers that change
  /// what is written, columns that are computed.
  void check_schema() const {
    Statement found{database, "SELECT type, name, sql FROM sqlite_master"};
    bool events = false;
    while (found.step()) {
      const auto made = found.text(2);
      events = events || made == events_table;
      if (made != events_table && made != promise_table)
        refuse("is no journal of a run: it holds " + found.text(0) + " "
               + in_quotes(found.text(1)) + ", which no run has made so");
    }
    if (!events)
      refuse("is no journal of a run: it has no table of events");
  }

  bool has_promise() const {
    Statement tables{database,
                     "SELECT 1 FROM sqlite_master WHERE name = 'promise'"};
    return tables.step();
  }

  /// Pages that lead to one another may seem to hold anything.
  void check_size(uint64_t bytes) const {
    if (bytes > longest_event
        && bytes > std::min(max_bytes, pragma("PRAGMA page_count")
                                         * pragma("PRAGMA page_size")))
      throw InputError("its events are longer than a run's can be");
  }

  /// Runs `change` whole or not at all.
  template <class Change>
  void write(Change change) const {
    try {
      run("BEGIN IMMEDIATE");
      change();
      run("COMMIT");
    } catch (const InputError& failure) {
      const std::string why = failure.what();
      sqlite3_exec(database, "ROLLBACK", nullptr, nullptr, nullptr);
      refuse("cannot be written: " + why);
    }
  }

  /// Inserts events behind those that `check` is of; returns that of the last.
  uint32_t insert(const std::vector<JournalEvent>& events,
                  uint32_t check) const {
    Statement row{database, "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)"};
    for (const auto& event : events) {
      check = check_of(check, event);
      row.reset();
      row.bind(1, event.id);
      row.bind(2, event.unix_ms);
      row.bind(3, event.term);
      row.bind(4, event.kind);
      row.bind(5, event.body);
      row.bind(6, uint64_t{check});
      row.step();
    }
    return check;
  }

  void set_pragma(std::string name, int value) const {
    name.insert(0, "PRAGMA ");
    name += '=';
    name += std::to_string(value);
    run(name.c_str());
  }

  void make() const {
    run("PRAGMA journal_mode=WAL");
    run("BEGIN");
    set_pragma("application_id", application);
    set_pragma("user_version", schema);
    run(events_table);
    run("COMMIT");
  }

  /// Calls see(event) for each; leaves number and checksum of the last where
  /// all could be read.
  template <class See>
  void walk(See see) {
    uint64_t newest = 0;
    uint64_t bytes = 0;
    uint32_t sum = 0;
    Statement rows{database, "SELECT id, unix_ms, term, kind, body, checksum "
                             "FROM events ORDER BY id"};
    while (rows.step()) {
      JournalEvent event{rows.number(0), rows.number(1), rows.number(2),
                         rows.text(3), rows.text(4)};
      const auto found = rows.number(5);
      check_size(bytes += event.kind.size() + event.body.size());
      if (event.id <= newest)
        throw InputError("event " + std::to_string(event.id) + " follows event "
                         + std::to_string(newest));
      if (event.id != newest + 1 && !gaps)
        throw InputError("event " + std::to_string(newest + 1) + " is missing");
      sum = check_of(sum, event);
      if (sum != found)
        throw InputError("event " + std::to_string(event.id)
                         + " does not fit its checksum");
      if (kernels::nested_deeper(event.body, max_body_depth))
        throw InputError("event " + std::to_string(event.id)
                         + " is nested too deeply");
      newest = event.id;
      see(std::move(event));
    }
    last = newest;
    check = sum;
  }
};

JournalFile::JournalFile(const std::string& path, Open how)
  : impl_(std::make_unique<Impl>()) {
  impl_->path = path;
  try {
    impl_->open(how);
    if (how != Open::read)
      impl_->walk([](const JournalEvent&) {});
  } catch (const InputError& failure) {
    const std::string line = failure.what();
    if (line.starts_with("journal "))
      throw;
    impl_->refuse("damaged, or not a journal: " + line);
  }
}

JournalFile::~JournalFile() = default;
JournalFile::JournalFile(JournalFile&&) noexcept = default;
JournalFile& JournalFile::operator=(JournalFile&&) noexcept = default;

std::vector<JournalEvent> JournalFile::events() const {
  std::vector<JournalEvent> out;
  try {
    impl_->walk([&](JournalEvent&& x) { out.push_back(std::move(x)); });
  } catch (const InputError& failure) {
    impl_->refuse(std::string{"damaged: "} + failure.what()
                  + "; nothing that follows can be believed");
  }
  return out;
}

void JournalFile::append(std::vector<JournalEvent>& events, bool full) {
  std::optional<NoSpace> disk;
  if (full)
    disk.emplace();
  auto last = impl_->last;
  for (auto& event : events)
    event.id = ++last;
  auto check = impl_->check;
  impl_->write([&] { check = impl_->insert(events, check); });
  impl_->last = last;
  impl_->check = check;
}

void JournalFile::fold(uint64_t until, FoldLimits limits) {
  if (!impl_->gaps)
    return;
  std::vector<JournalEvent> all;
  impl_->walk([&](JournalEvent&& x) { all.push_back(std::move(x)); });
  const auto before = all.size();
  const auto kept = folded_until(until, std::move(all), limits);
  if (kept.size() < before)
    replace(kept);
}

void JournalFile::replace(const std::vector<JournalEvent>& events) {
  auto check = impl_->check;
  impl_->write([&] {
    impl_->set_pragma("user_version", schema);
    impl_->run("DELETE FROM events");
    check = impl_->insert(events, 0);
  });
  impl_->gaps = true;
  impl_->last = events.empty() ? 0 : events.back().id;
  impl_->check = check;
}

JournalFile JournalFile::copied_to(const std::string& path) const {
  JournalFile out{path, Open::create};
  const auto all = events();
  uint32_t check = 0;
  out.impl_->write([&] { check = out.impl_->insert(all, 0); });
  out.impl_->last = impl_->last;
  out.impl_->check = check;
  return out;
}

void JournalFile::cut(uint64_t keep) {
  impl_->write([&] {
    Statement rows{impl_->database, "DELETE FROM events WHERE id > ?"};
    rows.bind(1, keep);
    rows.step();
  });
  impl_->walk([](const JournalEvent&) {});
}

uint64_t JournalFile::promised() const {
  if (!impl_->has_promise())
    return 0;
  Statement row{impl_->database, "SELECT term FROM promise"};
  return row.step() ? row.number(0) : 0;
}

void JournalFile::promise(uint64_t term) {
  impl_->write([&] {
    if (!impl_->has_promise())
      impl_->run(promise_table);
    Statement row{impl_->database,
                  "INSERT OR REPLACE INTO promise VALUES (1, ?)"};
    row.bind(1, term);
    row.step();
  });
}

} // namespace troupe
