#include "kernels/records/record_index.hpp"

#include "kernels/base/crc32c.hpp"
#include "kernels/base/error.hpp"
#include "kernels/files/atomic_file.hpp"
#include "kernels/files/input_file.hpp"

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <span>
#include <utility>

namespace troupe {

namespace {

namespace fs = std::filesystem;

/// What an index file begins with; records follow.
struct IndexHead {
  std::array<char, 8> magic = {'T', 'R', 'P', 'I', 'D', 'X', '0', '1'};
  uint64_t file_bytes = 0;
  int64_t version = 0;
  uint64_t records = 0;
  uint32_t name_crc = 0; ///< of the file's path and the rule
  uint32_t records_crc = 0;
  uint32_t head_crc = 0; ///< of what stands before
  uint32_t reserved = 0;
};
static_assert(sizeof(IndexHead) == 48);

uint32_t head_crc(const IndexHead& head) {
  return crc32c(0, &head, offsetof(IndexHead, head_crc));
}

std::string identity(const DataFile& file, const std::string& rule) {
  std::error_code none;
  const auto whole = fs::absolute(file.place(), none);
  return (none || file.is_elsewhere() ? file.place()
                                      : whole.lexically_normal().string())
         + '\0' + rule;
}

/// Without a tag nothing says whether an object is the one it was.
bool is_recognised(const DataFile& file, const FileState& state) {
  return !file.is_elsewhere() || state.version != 0;
}

/// Two sums of 32 bits, of which one begins with a text, name it; a file that
/// was made for another one of that name is refused by its head and made
/// again.
std::string index_path(const std::string& folder, const std::string& name) {
  const auto sum = uint64_t{crc32c(0, name.data(), name.size())} << 32
                   | crc32c(0x5bd1e995u, name.data(), name.size());
  constexpr auto digits = "0123456789abcdef";
  std::string text;
  for (int shift = 60; shift >= 0; shift -= 4)
    text += digits[sum >> shift & 15];
  return (fs::path{folder} / (text + ".index")).string();
}

uint32_t name_crc(const std::string& name) {
  return crc32c(0x9e3779b9u, name.data(), name.size());
}

} // namespace

FileState state_of(const DataFile& file) {
  const auto opened = file.open();
  return {opened->size(), opened->version()};
}

FileIndex::FileIndex(FileState state, std::vector<IndexedRecord> records)
  : state_(state), size_(records.size()) {
  auto owner = std::make_shared<std::vector<IndexedRecord>>(std::move(records));
  records_ = owner->data();
  owner_ = std::move(owner);
}

std::optional<FileIndex> load_index(const std::string& folder,
                                    const DataFile& file,
                                    const std::string& rule) {
  if (folder.empty())
    return std::nullopt;
  const auto name = identity(file, rule);
  const auto path = index_path(folder, name);
  std::error_code none;
  if (!fs::is_regular_file(path, none))
    return std::nullopt;
  const auto state = state_of(file);
  try {
    const InputFile kept{path};
    IndexHead head;
    const auto bytes = std::as_writable_bytes(std::span{&head, 1});
    if (kept.read_at(0, bytes) < bytes.size() || head.magic != IndexHead{}.magic
        || !is_recognised(file, state) || head.head_crc != head_crc(head)
        || head.name_crc != name_crc(name) || head.file_bytes != state.bytes
        || head.version != state.version
        || head.records > (kept.size() - sizeof head) / sizeof(IndexedRecord)
        || kept.size() != sizeof head + head.records * sizeof(IndexedRecord))
      return std::nullopt;
    FileIndex result;
    auto memory = kept.map();
    result.state_ = state;
    result.size_ = head.records;
    result.records_ =
      reinterpret_cast<const IndexedRecord*>(memory.get() + sizeof head);
    result.owner_ = std::move(memory);
    if (crc32c(0, result.records_, head.records * sizeof(IndexedRecord))
        != head.records_crc)
      return std::nullopt;
    return result;
  } catch (const InputError&) {
    return std::nullopt; // what cannot be read is made again
  }
}

FileIndex keep_index(const std::string& folder, const DataFile& file,
                     const std::string& rule, FileIndex index) {
  if (folder.empty() || index.size() == 0
      || !is_recognised(file, index.state()))
    return index;
  const auto name = identity(file, rule);
  const std::span records{&index[0], index.size()};
  IndexHead head;
  head.file_bytes = index.state().bytes;
  head.version = index.state().version;
  head.records = index.size();
  head.name_crc = name_crc(name);
  head.records_crc = crc32c(0, records.data(), records.size_bytes());
  head.head_crc = head_crc(head);
  try {
    std::error_code none;
    fs::create_directories(folder, none);
    write_atomically(index_path(folder, name),
                     {std::as_bytes(std::span{&head, 1}),
                      std::as_bytes(records)});
  } catch (const InputError&) {
    return index; // a full disk, a folder of others: the next run looks again
  }
  if (auto kept = load_index(folder, file, rule))
    return std::move(*kept);
  return index;
}

std::string index_folder() {
  const auto named = [](const char* variable) {
    const char* value = std::getenv(variable);
    return fs::path{value == nullptr ? "" : value};
  };
  if (const auto own = named("TROUPE_CACHE"); !own.empty())
    return (own / "index").string();
  if (const auto cache = named("XDG_CACHE_HOME"); !cache.empty())
    return (cache / "troupe" / "index").string();
  if (const auto home = named("HOME"); !home.empty())
    return (home / ".cache" / "troupe" / "index").string();
  return {};
}

} // namespace troupe
