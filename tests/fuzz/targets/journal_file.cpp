// A journal's file: SQLite, with checksums of its own.

#include "actors/journal/journal_file.hpp"

#include "tests/fuzz/input.hpp"

using namespace troupe;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const fuzz::Scratch scratch;
  fuzz::Input input{data, size};
  const auto how = input.byte() % 2 == 0 ? JournalFile::Open::read
                                         : JournalFile::Open::resume;
  for (const char* beside : {"journal.db-wal", "journal.db-shm"})
    std::remove((scratch.folder() + '/' + beside).c_str());
  const auto path = scratch.put("journal.db", input.rest());
  fuzz::accepted([&] {
    JournalFile file{path, how};
    uint64_t id = 0;
    for (const auto& event : file.events())
      fuzz::holds(event.id == ++id, "events have no gaps");
    file.promised();
  });
  return 0;
}
