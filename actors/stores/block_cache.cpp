#include "actors/stores/block_cache.hpp"

#include "kernels/base/crc32c.hpp"
#include "kernels/base/error.hpp"
#include "kernels/base/steady_clock.hpp"
#include "kernels/files/file_error.hpp"
#include "kernels/files/folder_lock.hpp"
#include "kernels/files/tensor_hash.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>

namespace troupe {

namespace {

namespace fs = std::filesystem;

constexpr uint64_t pages = BlockCache::block_bytes / BlockCache::page_bytes;
constexpr uint64_t payload_at = 8192;
/// A use is written down no more often.
constexpr int64_t use_s = 30;
constexpr size_t max_open = 128;
/// What a process that was killed left half-written is removed after.
constexpr auto left_behind = std::chrono::minutes{10};
constexpr auto lock_patience = std::chrono::seconds{2};

/// What a block's file begins with.
struct Head {
  std::array<char, 8> magic = {'T', 'R', 'P', 'B', 'L', 'K', '0', '1'};
  std::array<char, 64> key{}; ///< SHA-256 of the key, hexadecimal
  uint64_t bytes = 0;
  std::array<uint32_t, pages> sums{}; ///< CRC-32C of each page
  uint32_t own_sum = 0;               ///< of what stands before
};
static_assert(sizeof(Head) <= payload_at);

uint32_t own_sum(const Head& head) {
  return crc32c(0, &head, offsetof(Head, own_sum));
}

std::string text_of(const BlockCache::Key& key) {
  auto text = key.object;
  text += '\0';
  text += std::to_string(key.block);
  return text;
}

std::string digest_of(const std::string& text) {
  return sha256(std::as_bytes(std::span{text.data(), text.size()}));
}

class Handle {
public:
  explicit Handle(int handle) : handle_(handle) {}
  ~Handle() {
    if (handle_ >= 0)
      ::close(handle_);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  int get() const { return handle_; }
  bool is_open() const { return handle_ >= 0; }

  bool read_at(uint64_t offset, void* out, uint64_t bytes) const {
    auto* to = static_cast<std::byte*>(out);
    while (bytes > 0) {
      const auto got = ::pread(handle_, to, bytes, static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR)
        continue;
      if (got <= 0)
        return false;
      to += got;
      offset += static_cast<uint64_t>(got);
      bytes -= static_cast<uint64_t>(got);
    }
    return true;
  }

private:
  int handle_;
};

uint64_t page_length(const Head& head, uint64_t page) {
  return std::min(BlockCache::page_bytes,
                  head.bytes - page * BlockCache::page_bytes);
}

/// Reads the pages that hold a part and checks each; false: damaged.
bool read_pages(const Handle& file, const Head& head, uint64_t offset,
                std::span<std::byte> out) {
  const auto first = offset / BlockCache::page_bytes;
  const auto last = (offset + out.size() - 1) / BlockCache::page_bytes;
  const auto begin = first * BlockCache::page_bytes;
  thread_local std::vector<std::byte> buffer;
  buffer.resize(last * BlockCache::page_bytes + page_length(head, last)
                - begin);
  if (!file.read_at(payload_at + begin, buffer.data(), buffer.size()))
    return false;
  for (auto page = first; page <= last; ++page)
    if (crc32c(0, buffer.data() + (page - first) * BlockCache::page_bytes,
               page_length(head, page))
        != head.sums[page])
      return false;
  std::copy_n(buffer.begin() + static_cast<ptrdiff_t>(offset - begin),
              out.size(), out.begin());
  return true;
}

/// Errors: -1, also where anything but a file has the name: a link or a FIFO
/// would lead out of the folder, or be waited for.
int open_file(const std::string& path, int flags) {
  const int handle = ::open(path.c_str(),
                            flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
  struct stat about {};
  if (handle < 0 || (::fstat(handle, &about) == 0 && S_ISREG(about.st_mode)))
    return handle;
  ::close(handle);
  return -1;
}

/// Whether something is there that is no file.
bool is_other(const std::string& path) {
  struct stat about {};
  return ::lstat(path.c_str(), &about) == 0 && !S_ISREG(about.st_mode);
}

/// Makes the folder, for this user alone.
void make_folder(fs::path dir) {
  if (!dir.has_filename()) // "cache/"
    dir = dir.parent_path();
  std::error_code failure;
  fs::create_directories(dir.parent_path(), failure);
  if (::mkdir(dir.c_str(), 0700) == 0)
    ::chmod(dir.c_str(), 0700); // whatever the umask leaves out
}

/// As ssh does with its files: who may write there could make a run take other
/// bytes, write elsewhere, or wait.
void check_own(const std::string& dir) {
  struct stat folder {};
  struct stat name {};
  if (::stat(dir.c_str(), &folder) != 0 || ::lstat(dir.c_str(), &name) != 0)
    return fail_to_write(dir, errno);
  for (const auto* about : {&folder, &name}) // it may be a link
    if (about->st_uid != ::geteuid() && about->st_uid != 0)
      throw InputError(
        "--data-cache " + dir + ": belongs to another user (number "
        + std::to_string(about->st_uid) + "); name a folder of your own");
  if ((folder.st_mode & 022) != 0)
    throw InputError("--data-cache " + dir
                     + ": others may write to it: chmod go-w " + dir
                     + ", or name another folder");
}

bool write_all(int handle, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto done = ::write(handle, bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR)
      continue;
    if (done <= 0)
      return false;
    bytes = bytes.subspan(static_cast<size_t>(done));
  }
  return true;
}

/// A block that is written beside its name; removed unless it was renamed.
class Draft {
public:
  explicit Draft(const std::string& path) {
    static std::atomic<uint64_t> number{0}; // of this process
    name_ = path + ".tmp-" + std::to_string(::getpid()) + '-'
            + std::to_string(number++);
    handle_ = ::open(name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                     0600);
    if (handle_ < 0) // it may be that of a process in another container
      name_.clear();
  }
  ~Draft() {
    if (handle_ >= 0)
      ::close(handle_);
    if (!name_.empty())
      ::unlink(name_.c_str());
  }
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;

  bool write(const Head& head, std::span<const std::byte> bytes) {
    std::vector<std::byte> start(payload_at);
    std::memcpy(start.data(), &head, sizeof head);
    return handle_ >= 0 && write_all(handle_, start)
           && write_all(handle_, bytes);
  }

  // Not synced: what a loss of power leaves is found by its sums.
  bool rename_to(const std::string& path) {
    if (::rename(name_.c_str(), path.c_str()) != 0)
      return false;
    name_.clear();
    return true;
  }

private:
  std::string name_;
  int handle_ = -1;
};

/// The folder's lock, waited for no longer than a fetch would take.
std::unique_ptr<FolderLock> locked(const std::string& dir) {
  const auto until = SteadyClock::now() + lock_patience;
  while (true) {
    auto lock = std::make_unique<FolderLock>(dir);
    if (lock->held())
      return lock;
    if (SteadyClock::now() >= until)
      return nullptr;
    std::this_thread::sleep_for(std::chrono::milliseconds{2});
  }
}

/// A file of the cache as the room it takes and when it was last used.
struct KeptFile {
  std::string path;
  uint64_t bytes = 0;
  fs::file_time_type used;
};

/// All blocks that are whole; what was left half-written long ago is removed.
std::vector<KeptFile> kept_files(const std::string& dir) {
  std::vector<KeptFile> files;
  std::error_code failed;
  const auto now = fs::file_time_type::clock::now();
  fs::recursive_directory_iterator entries{
    dir, fs::directory_options::skip_permission_denied, failed};
  for (; !failed && entries != fs::recursive_directory_iterator{};
       entries.increment(failed)) {
    std::error_code gone;
    if (!entries->is_regular_file(gone) || gone)
      continue;
    KeptFile file{entries->path().string(), entries->file_size(gone),
                  entries->last_write_time(gone)};
    const auto name = entries->path().filename().string();
    if (gone || name.find(".block") == name.npos)
      continue;
    if (name.ends_with(".block"))
      files.push_back(std::move(file));
    else if (now - file.used > left_behind)
      fs::remove(entries->path(), gone);
  }
  return files;
}

} // namespace

/// A block's file with its head, which was checked.
struct BlockCache::OpenBlock {
  explicit OpenBlock(const std::string& path)
    : file(open_file(path, O_RDONLY)) {
    struct stat about;
    if (file.is_open() && ::fstat(file.get(), &about) == 0)
      noted_s = about.st_mtim.tv_sec;
  }

  /// Its last use is the time that its file was written, for make_room.
  void note_use() {
    timespec now;
    if (::clock_gettime(CLOCK_REALTIME_COARSE, &now) != 0
        || now.tv_sec - noted_s <= use_s)
      return;
    noted_s = now.tv_sec;
    ::futimens(file.get(), nullptr);
  }

  Handle file;
  Head head;
  std::atomic<int64_t> noted_s = 0;
};

/// Those that were read last.
struct BlockCache::OpenBlocks {
  using Entry = std::pair<std::string, std::shared_ptr<OpenBlock>>;

  std::shared_ptr<OpenBlock> find(const std::string& key) {
    const std::lock_guard guard{mutex};
    const auto at = places.find(key);
    if (at == places.end())
      return nullptr;
    order.splice(order.begin(), order, at->second);
    return at->second->second;
  }

  void add(const std::string& key, std::shared_ptr<OpenBlock> block) {
    const std::lock_guard guard{mutex};
    if (places.contains(key))
      return;
    if (order.size() >= max_open) {
      places.erase(order.back().first);
      order.pop_back();
    }
    order.emplace_front(key, std::move(block));
    places.emplace(key, order.begin());
  }

  void remove(const std::string& key) {
    const std::lock_guard guard{mutex};
    const auto at = places.find(key);
    if (at == places.end())
      return;
    order.erase(at->second);
    places.erase(at);
  }

  std::mutex mutex;
  std::list<Entry> order; ///< the last one that was read first
  std::unordered_map<std::string, std::list<Entry>::iterator> places;
};

BlockCache::BlockCache(std::string dir, uint64_t max_bytes)
  : dir_(std::move(dir)),
    max_bytes_(max_bytes),
    open_(std::make_unique<OpenBlocks>()) {
  constexpr uint64_t fewest_blocks = 16;
  if (max_bytes < fewest_blocks * (block_bytes + payload_at))
    throw UsageError("--data-cache " + dir_ + ": holds fewer than 16 blocks of "
                     + "a MiB; give it 17M at least");
  make_folder(dir_);
  const FolderLock folder{dir_}; // is there, or says why not
  check_own(dir_);
  if (::access(dir_.c_str(), W_OK) != 0)
    fail_to_write(dir_, errno);
}

BlockCache::~BlockCache() = default;

bool BlockCache::has(const Key& key) const {
  return open_->find(text_of(key)) != nullptr
         || ::access(path_of(digest_of(text_of(key))).c_str(), R_OK) == 0;
}

std::string BlockCache::path_of(const std::string& digest) const {
  return dir_ + '/' + digest.substr(0, 2) + '/' + digest.substr(2) + ".block";
}

/// The block as it was opened last, or is now; null where it is not there, or
/// is none that can be read.
std::shared_ptr<BlockCache::OpenBlock> BlockCache::opened(const Key& key,
                                                          uint64_t block_size) {
  const auto text = text_of(key);
  if (auto block = open_->find(text))
    return block;
  const auto digest = digest_of(text);
  const auto path = path_of(digest);
  auto block = std::make_shared<OpenBlock>(path);
  if (!block->file.is_open()) {
    if (is_other(path))
      forget(key);
    return nullptr;
  }
  auto& head = block->head;
  const bool fits =
    block->file.read_at(0, &head, sizeof head) && head.magic == Head{}.magic
    && head.own_sum == own_sum(head) && head.bytes == block_size
    && std::equal(head.key.begin(), head.key.end(), digest.begin());
  if (!fits) {
    forget(key);
    return nullptr;
  }
  open_->add(text, block);
  return block;
}

/// Removes a block that is damaged.
void BlockCache::forget(const Key& key) {
  const auto text = text_of(key);
  open_->remove(text);
  ::unlink(path_of(digest_of(text)).c_str());
  ++damaged_;
}

bool BlockCache::read(const Key& key, uint64_t block_size, uint64_t offset,
                      std::span<std::byte> out) {
  const auto block = opened(key, block_size);
  if (!block || offset + out.size() > block->head.bytes) {
    ++misses_;
    return false;
  }
  if (!out.empty() && !read_pages(block->file, block->head, offset, out)) {
    forget(key);
    ++misses_;
    return false;
  }
  ++hits_;
  block->note_use();
  return true;
}

/// What the folder's files take, as the last process wrote it down; a number
/// that cannot be is looked up anew.
uint64_t BlockCache::known_bytes() const {
  std::array<uint64_t, 2> words{};
  const Handle file{open_file(dir_ + "/used", O_RDONLY)};
  if (file.is_open() && file.read_at(0, words.data(), sizeof words)
      && words[1] == ~words[0])
    return words[0];
  return ~uint64_t{0};
}

void BlockCache::note_bytes(uint64_t bytes) const {
  const std::array<uint64_t, 2> words{bytes, ~bytes};
  const auto path = dir_ + "/used";
  const Handle file{open_file(path, O_WRONLY | O_CREAT)};
  if (file.is_open())
    write_all(file.get(), std::as_bytes(std::span{words}));
  else if (is_other(path))
    ::unlink(path.c_str()); // the next one writes it
}

/// Removes what was not used for longest until a tenth is free beyond what is
/// wanted. Returns what is left.
uint64_t BlockCache::make_room(uint64_t bytes) {
  auto files = kept_files(dir_);
  uint64_t used = 0;
  for (const auto& file : files)
    used += file.bytes;
  if (used + bytes <= max_bytes_)
    return used;
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) {
    return a.used < b.used || (a.used == b.used && a.path < b.path);
  });
  const auto goal = max_bytes_ - max_bytes_ / 10;
  for (const auto& file : files) {
    if (used + bytes <= goal)
      break;
    if (::unlink(file.path.c_str()) == 0)
      ++removed_;
    else if (errno != ENOENT) // another process was first
      continue;
    used -= file.bytes;
  }
  return used;
}

void BlockCache::keep(const Key& key, std::span<const std::byte> bytes) {
  const auto digest = digest_of(text_of(key));
  const auto path = path_of(digest);
  const auto whole = payload_at + bytes.size();
  if (bytes.empty() || bytes.size() > block_bytes
      || ::access(path.c_str(), R_OK) == 0) // another process was first
    return;
  Head head;
  std::copy(digest.begin(), digest.end(), head.key.begin());
  head.bytes = bytes.size();
  for (uint64_t page = 0; page * page_bytes < bytes.size(); ++page)
    head.sums[page] = crc32c(0, bytes.data() + page * page_bytes,
                             page_length(head, page));
  head.own_sum = own_sum(head);
  const auto folder = path.substr(0, path.rfind('/'));
  ::mkdir(folder.c_str(), 0700); // mostly there
  Draft draft{path};
  if (!draft.write(head, bytes))
    return;
  try {
    const auto lock = locked(dir_);
    if (!lock || ::access(path.c_str(), R_OK) == 0) // kept meanwhile
      return;
    auto used = known_bytes();
    if (used > max_bytes_ || used + whole > max_bytes_)
      used = make_room(whole);
    if (used + whole > max_bytes_)
      return;
    // First the number, then the file: a process that is killed between the
    // two leaves too large a number, which the next one looks up.
    note_bytes(used + whole);
    draft.rename_to(path);
  } catch (const FileError&) {
    return; // the folder is gone: nothing is kept
  }
}

} // namespace troupe
