#include "actors/stores/block_cache.hpp"
#include "kernels/files/folder_lock.hpp"
#include "tests/unit/kernels/data_files.hpp"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

using namespace troupe;
using namespace troupe::testing;

BOOST_AUTO_TEST_SUITE(block_cache)

namespace {

namespace fs = std::filesystem;

constexpr auto block_bytes = BlockCache::block_bytes;
constexpr uint64_t room = uint64_t{20} << 20;

using Block = std::vector<std::byte>;

Block block_of(uint64_t number, size_t bytes = block_bytes) {
  Block block(bytes);
  for (size_t i = 0; i < bytes; ++i)
    block[i] =
      static_cast<std::byte>((number * 7919 + i * 31 + i / 4096) & 0xff);
  return block;
}

BlockCache::Key key_of(uint64_t number) {
  return {"https://host/data\n\"tag\"", number};
}

std::vector<fs::path> blocks_in(const fs::path& dir) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator{dir})
    if (entry.path().extension() == ".block")
      files.push_back(entry.path());
  return files;
}

uint64_t bytes_in(const fs::path& dir) {
  uint64_t bytes = 0;
  for (const auto& file : blocks_in(dir))
    bytes += fs::file_size(file);
  return bytes;
}

bool reads(BlockCache& cache, uint64_t number, const Block& wanted,
           uint64_t offset = 0, uint64_t count = block_bytes) {
  count = std::min<uint64_t>(count, wanted.size() - offset);
  Block out(count);
  if (!cache.read(key_of(number), wanted.size(), offset, out))
    return false;
  BOOST_TEST(std::equal(out.begin(), out.end(),
                        wanted.begin() + static_cast<ptrdiff_t>(offset)));
  return true;
}

} // namespace

BOOST_AUTO_TEST_CASE(any_part_of_a_block_comes_back) {
  const Folder folder;
  BlockCache cache{folder.path / "cache", room};
  const auto whole = block_of(1);
  const auto last = block_of(2, 4'097);
  BOOST_TEST(!reads(cache, 1, whole));
  cache.keep(key_of(1), whole);
  cache.keep(key_of(2), last);
  BOOST_TEST(cache.has(key_of(1)));
  BOOST_TEST(!cache.has(key_of(3)));
  for (uint64_t offset : {0, 1, 4'095, 4'096, 500'000})
    for (uint64_t count : {1, 4'096, 4'097, 20'000})
      BOOST_TEST(reads(cache, 1, whole, offset, count));
  BOOST_TEST(reads(cache, 1, whole, block_bytes - 1));
  BOOST_TEST(reads(cache, 2, last, 4'096, 1));
  BOOST_TEST(cache.misses() == 1u);
  BOOST_TEST(cache.hits() == 22u);
}

BOOST_AUTO_TEST_CASE(the_next_run_finds_what_this_one_kept) {
  const Folder folder;
  const auto whole = block_of(1);
  BlockCache{folder.path / "cache", room}.keep(key_of(1), whole);
  BlockCache again{folder.path / "cache", room};
  BOOST_TEST(reads(again, 1, whole));
}

BOOST_AUTO_TEST_CASE(another_object_or_state_is_another_block) {
  const Folder folder;
  BlockCache cache{folder.path / "cache", room};
  cache.keep(key_of(1), block_of(1));
  Block out(10);
  BOOST_TEST(
    !cache.read({"https://host/data\n\"other\"", 1}, block_bytes, 0, out));
  BOOST_TEST(!cache.read(key_of(2), block_bytes, 0, out));
}

BOOST_AUTO_TEST_CASE(what_is_damaged_is_found_and_removed) {
  const Folder folder;
  const auto whole = block_of(1);
  // In the head, its sums, what lies between, the bytes; and a shortened file.
  for (uint64_t place : {0, 3, 70, 90, 1'100, 8'192, 600'000}) {
    BlockCache cache{folder.path / "cache", room};
    cache.keep(key_of(1), whole);
    const auto file = blocks_in(folder.path / "cache").at(0);
    {
      std::fstream out{file, std::ios::in | std::ios::out | std::ios::binary};
      out.seekg(static_cast<std::streamoff>(place));
      const auto before = static_cast<char>(out.get());
      out.seekp(static_cast<std::streamoff>(place));
      out.put(static_cast<char>(before ^ 0x10));
    }
    BOOST_TEST(!reads(cache, 1, whole), place);
    BOOST_TEST(cache.damaged() == 1u);
    BOOST_TEST(blocks_in(folder.path / "cache").empty());
  }
  BlockCache cache{folder.path / "cache", room};
  cache.keep(key_of(1), whole);
  fs::resize_file(blocks_in(folder.path / "cache").at(0), 8'192 + 5'000);
  BOOST_TEST(reads(cache, 1, whole, 0, 4'096)); // that page is there
  BOOST_TEST(!reads(cache, 1, whole));
  cache.keep(key_of(1), whole);
  BOOST_TEST(reads(cache, 1, whole));
}

BOOST_AUTO_TEST_CASE(it_never_takes_more_and_what_was_used_lately_stays) {
  const Folder folder;
  BlockCache cache{folder.path / "cache", room};
  const auto first = block_of(0);
  cache.keep(key_of(0), first);
  const auto used = blocks_in(folder.path / "cache").at(0);
  for (uint64_t i = 1; i < 60; ++i) {
    cache.keep(key_of(i), block_of(i));
    BOOST_TEST(bytes_in(folder.path / "cache") <= room);
    // Its last use is written down once in a while: as if that was now.
    fs::last_write_time(used, fs::file_time_type::clock::now()
                                + std::chrono::hours{1});
  }
  BOOST_TEST(cache.removed() > 30u);
  BOOST_TEST(reads(cache, 0, first));
  BOOST_TEST(reads(cache, 59, block_of(59)));
  BOOST_TEST(!reads(cache, 1, block_of(1)));
}

BOOST_AUTO_TEST_CASE(what_others_are_writing_stays_and_takes_no_room) {
  const Folder folder;
  const auto dir = folder.path / "cache";
  BlockCache cache{dir, room};
  cache.keep(key_of(0), block_of(0));
  const auto kept = blocks_in(dir).at(0);
  const auto draft = fs::path{kept.string() + ".tmp-1-0"};
  const auto old = fs::path{kept.string() + ".tmp-1-1"};
  for (const auto& file : {draft, old})
    folder.put(fs::relative(file, folder.path).string(), "half of it");
  fs::resize_file(draft, 10 * block_bytes);
  const auto now = fs::file_time_type::clock::now();
  fs::last_write_time(old, now - std::chrono::hours{1});
  // By its date it would go before all others.
  fs::last_write_time(draft, now - std::chrono::minutes{5});
  for (uint64_t i = 1; i < 22; ++i)
    cache.keep(key_of(i), block_of(i));
  BOOST_TEST(cache.removed() > 0u);
  BOOST_TEST(fs::exists(draft));
  BOOST_TEST(!fs::exists(old)); // whoever wrote it was killed
  BOOST_TEST(blocks_in(dir).size() > 12u);
}

BOOST_AUTO_TEST_CASE(a_use_long_after_the_last_is_written_down) {
  const Folder folder;
  BlockCache cache{folder.path / "cache", room};
  cache.keep(key_of(0), block_of(0));
  const auto file = blocks_in(folder.path / "cache").at(0);
  const auto long_ago = fs::file_time_type::clock::now()
                        - std::chrono::hours{5};
  fs::last_write_time(file, long_ago);
  BOOST_TEST(reads(cache, 0, block_of(0), 0, 10));
  BOOST_TEST((fs::last_write_time(file) - long_ago > std::chrono::hours{4}));
}

BOOST_AUTO_TEST_CASE(a_wrong_count_of_what_is_used_heals) {
  const Folder folder;
  const auto dir = folder.path / "cache";
  BlockCache cache{dir, room};
  for (uint64_t i = 0; i < 15; ++i)
    cache.keep(key_of(i), block_of(i));
  for (const auto* text : {"", "damaged", "0123456789abcdef"}) {
    folder.put("cache/used", std::string{text});
    for (uint64_t i = 0; i < 10; ++i)
      cache.keep(key_of(100 + i), block_of(100 + i));
    BOOST_TEST(bytes_in(dir) <= room);
  }
}

BOOST_AUTO_TEST_CASE(processes_share_it_and_may_be_killed) {
  const Folder folder;
  const auto dir = folder.path / "cache";
  // Each keeps and reads the same blocks until it is killed.
  std::vector<pid_t> children;
  for (int child = 0; child < 3; ++child) {
    const auto pid = ::fork();
    if (pid == 0) {
      BlockCache cache{dir, room};
      for (uint64_t i = 0;; i = (i + 1) % 40) {
        const auto block = block_of(i);
        Block out(block_bytes);
        if (!cache.read(key_of(i), block_bytes, 0, out))
          cache.keep(key_of(i), block);
        else if (out != block)
          ::_exit(9);
      }
    }
    children.push_back(pid);
  }
  // Until there was something to remove: what is used does not only grow.
  const auto until = std::chrono::steady_clock::now()
                     + std::chrono::seconds{60};
  BlockCache own{dir, room};
  uint64_t most = 0;
  while (own.removed() == 0 && std::chrono::steady_clock::now() < until)
    for (uint64_t i = 0; i < 40 && own.removed() == 0; ++i) {
      own.keep(key_of(i), block_of(i));
      try {
        most = std::max(most, bytes_in(dir));
      } catch (const fs::filesystem_error&) {
        continue; // a block went while it was looked at
      }
    }
  for (const auto pid : children) {
    ::kill(pid, SIGKILL);
    int status = 0;
    BOOST_TEST(::waitpid(pid, &status, 0) == pid);
    BOOST_TEST(WIFSIGNALED(status)); // and not by itself: the bytes were right
  }
  BOOST_TEST(own.removed() > 0u);
  BOOST_TEST(most <= room);
  // What the killed ones left does not stop the next.
  BlockCache next{dir, room};
  const auto block = block_of(1'000);
  next.keep(key_of(1'000), block);
  BOOST_TEST(reads(next, 1'000, block));
}

BOOST_AUTO_TEST_CASE(a_folder_that_is_locked_for_long_costs_nothing_but_time) {
  const Folder folder;
  const auto dir = (folder.path / "cache").string();
  BlockCache cache{dir, room};
  const FolderLock other{dir};
  BOOST_REQUIRE(other.held());
  cache.keep(key_of(1), block_of(1));
  BOOST_TEST(!reads(cache, 1, block_of(1)));
  BOOST_TEST(blocks_in(dir).empty());
}

BOOST_AUTO_TEST_CASE(what_is_no_file_is_neither_followed_nor_waited_for) {
  const Folder folder;
  const auto dir = folder.path / "cache";
  const auto whole = block_of(1);
  BlockCache{dir, room}.keep(key_of(1), whole);
  const auto block = blocks_in(dir).at(0);
  const auto precious = folder.put("precious", std::string{"of the user"});
  const auto put = [&](const fs::path& place, bool link) {
    fs::remove(place);
    if (link)
      fs::create_symlink(precious, place);
    else
      BOOST_REQUIRE(::mkfifo(place.c_str(), 0600) == 0);
  };
  for (const bool link : {true, false})
    for (const auto& place : {dir / "used", block}) {
      put(place, link);
      BlockCache cache{dir, room};
      reads(cache, 1, whole);
      cache.keep(key_of(1), whole);
      cache.keep(key_of(2), block_of(2));
      cache.keep(key_of(3), block_of(3));
      BOOST_TEST(reads(cache, 1, whole));
      BOOST_TEST(fs::is_regular_file(fs::symlink_status(place)));
      for (const auto& other : blocks_in(dir))
        if (other != block)
          fs::remove(other);
    }
  std::ifstream in{precious};
  BOOST_TEST((std::string{std::istreambuf_iterator<char>{in}, {}})
             == "of the user");
}

BOOST_AUTO_TEST_CASE(a_folder_is_of_one_user_alone) {
  const Folder folder;
  const auto dir = (folder.path / "cache").string();
  const auto old = ::umask(0);
  BlockCache{dir, room};
  ::umask(old);
  BOOST_TEST(
    ((fs::status(dir).permissions() & fs::perms::all) == fs::perms::owner_all));
  for (const auto others : {fs::perms::group_write, fs::perms::others_write}) {
    fs::permissions(dir, fs::perms::owner_all | others);
    BOOST_CHECK_EXCEPTION(
      (BlockCache{dir, room}), InputError,
      says({"--data-cache " + dir, "others may write", "chmod go-w"}));
  }
  fs::permissions(dir, fs::perms::owner_all);
  BlockCache{dir, room};
  if (::geteuid() != 0)
    return; // only root gives files away
  const auto link = (folder.path / "link").string();
  fs::create_directory_symlink(dir, link);
  BlockCache{link, room};
  BOOST_REQUIRE(::lchown(link.c_str(), 12345, static_cast<gid_t>(-1)) == 0);
  BOOST_CHECK_EXCEPTION((BlockCache{link, room}), InputError,
                        says({"another user (number 12345)"}));
  BOOST_REQUIRE(::chown(dir.c_str(), 12345, static_cast<gid_t>(-1)) == 0);
  BOOST_CHECK_EXCEPTION((BlockCache{dir, room}), InputError,
                        says({"another user (number 12345)", "of your own"}));
}

BOOST_AUTO_TEST_CASE(mistakes_are_one_line) {
  const Folder folder;
  const auto file = folder.put("file", std::string{"x"});
  BOOST_CHECK_EXCEPTION((BlockCache{folder.path / "c", 1'000}), UsageError,
                        says({"--data-cache", "16 blocks"}));
  BOOST_CHECK_EXCEPTION((BlockCache{file, room}), InputError,
                        says({file, "cannot be used"}));
}

BOOST_AUTO_TEST_SUITE_END()
