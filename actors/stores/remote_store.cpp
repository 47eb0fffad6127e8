#include "actors/stores/remote_store.hpp"

#include "kernels/base/error.hpp"
#include "kernels/base/seconds_since.hpp"
#include "kernels/base/steady_clock.hpp"
#include "kernels/files/file_url.hpp"
#include "kernels/files/tensor_hash.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstring>
#include <set>
#include <span>
#include <utility>

namespace troupe {

namespace {

constexpr uint64_t StoreCounts::*counted[]{
  &StoreCounts::requests,     &StoreCounts::bytes,
  &StoreCounts::tries_again,  &StoreCounts::cache_hits,
  &StoreCounts::cache_misses, &StoreCounts::cache_damaged,
  &StoreCounts::wait_us};

} // namespace

StoreCounts& StoreCounts::operator+=(const StoreCounts& more) {
  for (const auto count : counted)
    this->*count += more.*count;
  return *this;
}

StoreCounts& StoreCounts::operator-=(const StoreCounts& before) {
  for (const auto count : counted)
    this->*count -= before.*count;
  return *this;
}

struct RemoteStore::Inside {
  /// The stores of the process, and what those did that are gone.
  struct All {
    std::mutex mutex;
    std::set<const Inside*> there;
    StoreCounts gone;
  };
  static All& all() {
    static auto& all = *new All; // stores may end after all statics
    return all;
  }

  Inside(const StoreOptions& options, Environment environment)
    : fetcher(options.tries, std::move(environment)),
      pool(options.fetches, options.ahead_bytes) {
    if (!options.cache_dir.empty()) {
      cache.emplace(options.cache_dir, options.cache_bytes);
      // A tenth is made free at a time, and blocks have heads.
      room = options.cache_bytes / 100 * 89;
    }
    const std::lock_guard guard{all().mutex};
    all().there.insert(this);
  }
  ~Inside() {
    fetcher.end(); // so that the pool's threads return
    const std::lock_guard guard{all().mutex};
    all().there.erase(this);
    all().gone += counts();
  }

  StoreCounts counts() const {
    StoreCounts counts{fetcher.requests(), fetcher.bytes(),
                       fetcher.tries_again()};
    if (cache) {
      counts.cache_hits = cache->hits();
      counts.cache_misses = cache->misses();
      counts.cache_damaged = cache->damaged();
    }
    counts.wait_us = wait_us;
    return counts;
  }

  std::optional<BlockCache> cache;
  Fetcher fetcher;
  FetchPool pool; // ends before the two that its threads use
  /// Whether the cache has room for all objects that are known.
  bool fits() const { return known_bytes <= room; }

  const ObjectState& know(const std::string& url, ObjectState state) {
    const std::lock_guard guard{mutex};
    const auto [at, fresh] = known.try_emplace(url, std::move(state));
    if (fresh)
      known_bytes += at->second.bytes;
    return at->second;
  }

  std::mutex mutex;
  std::map<std::string, ObjectState> known; ///< by URL; none goes
  std::atomic<uint64_t> known_bytes = 0;
  std::atomic<uint64_t> wait_us = 0;
  uint64_t room = 0; ///< of the cache for objects' bytes
};

namespace {

constexpr auto block_bytes = BlockCache::block_bytes;

/// A number that follows from an object's tag; 0 where there is none.
int64_t version_of(const std::string& state) {
  if (state.empty())
    return 0;
  const auto digest =
    sha256(std::as_bytes(std::span{state.data(), state.size()}));
  uint64_t value = 0;
  std::from_chars(digest.data(), digest.data() + 16, value, 16);
  return static_cast<int64_t>(value | 1);
}

} // namespace

/// One object, in pieces of a block's length at most: blocks go through the
/// cache where there is one, else exactly what is asked for is fetched.
class RemoteStore::Object : public OpenedFile {
public:
  Object(std::shared_ptr<Inside> inside, std::string url, ObjectState state)
    : inside_(std::move(inside)),
      url_(std::move(url)),
      name_(shown_place(url_)),
      state_(std::move(state)),
      version_(version_of(state_.state)),
      identity_(url_ + '\n' + std::to_string(state_.bytes) + '\n'
                + state_.state) {}

  const std::string& name() const override { return name_; }
  uint64_t size() const override { return state_.bytes; }
  int64_t version() const override { return version_; }

  size_t read_at(uint64_t offset, std::span<std::byte> out) const override {
    if (offset >= state_.bytes)
      return 0;
    out = out.first(std::min<uint64_t>(out.size(), state_.bytes - offset));
    for (size_t done = 0; done < out.size();) {
      const auto piece = piece_at(offset + done, out.size() - done);
      const auto part = out.subspan(done, piece.count);
      if (!is_cached(piece, part))
        copy(piece, part);
      done += piece.count;
    }
    return out.size();
  }

  void expect(uint64_t offset, uint64_t bytes) const override {
    if (offset >= state_.bytes)
      return;
    bytes = std::min(bytes, state_.bytes - offset);
    for (uint64_t done = 0; done < bytes;) {
      const auto piece = piece_at(offset + done, bytes - done);
      if (!keeps() || !inside_->cache->has({identity_, piece.block}))
        inside_->pool.begin(name_of(piece), piece.fetch_count, fetch_of(piece));
      done += piece.count;
    }
  }

private:
  /// What of a block, or of the object, is wanted, and what is fetched for it.
  struct Piece {
    uint64_t block = 0;
    uint64_t offset = 0; ///< in the object
    uint64_t count = 0;
    uint64_t fetch_offset = 0;
    uint64_t fetch_count = 0;
    bool keep = false; ///< what is fetched is a block to be kept
  };

  bool keeps() const { return inside_->cache && version_ != 0; }

  uint64_t block_length(uint64_t block) const {
    return std::min(block_bytes, state_.bytes - block * block_bytes);
  }

  /// A piece does not go over a block's end. All of its block is fetched for
  /// it where that can be kept until its other bytes are wanted, or where most
  /// of it is wanted anyway.
  Piece piece_at(uint64_t offset, uint64_t bytes) const {
    Piece piece;
    piece.block = offset / block_bytes;
    const auto begin = piece.block * block_bytes;
    const auto length = block_length(piece.block);
    piece.offset = offset;
    piece.count = std::min(bytes, begin + length - offset);
    piece.keep = keeps() && (inside_->fits() || piece.count > length / 2);
    piece.fetch_offset = piece.keep ? begin : offset;
    piece.fetch_count = piece.keep ? length : piece.count;
    return piece;
  }

  std::string name_of(const Piece& piece) const {
    return identity_ + '\n' + std::to_string(piece.fetch_offset) + '+'
           + std::to_string(piece.fetch_count);
  }

  bool is_cached(const Piece& piece, std::span<std::byte> out) const {
    return keeps()
           && inside_->cache->read({identity_, piece.block},
                                   block_length(piece.block),
                                   piece.offset - piece.block * block_bytes,
                                   out);
  }

  void copy(const Piece& piece, std::span<std::byte> out) const {
    const auto begun = SteadyClock::now();
    const auto bytes = inside_->pool.take(name_of(piece), fetch_of(piece));
    inside_->wait_us += static_cast<uint64_t>(1e6 * seconds_since(begun));
    std::memcpy(out.data(), bytes->data() + (piece.offset - piece.fetch_offset),
                out.size());
  }

  FetchPool::Fetch fetch_of(const Piece& piece) const {
    // Not the shared pointer: a thread of the pool must not end the pool.
    return [inside = inside_.get(), url = url_, state = state_, piece,
            identity = identity_] {
      auto bytes = inside->fetcher.range(url, state, piece.fetch_offset,
                                         piece.fetch_count);
      if (piece.keep)
        inside->cache->keep({identity, piece.block}, bytes);
      return bytes;
    };
  }

  std::shared_ptr<Inside> inside_;
  std::string url_;
  std::string name_;
  ObjectState state_;
  int64_t version_;
  std::string identity_; ///< of the object as it is
};

RemoteStore::RemoteStore(const StoreOptions& options, Environment environment)
  : inside_(std::make_shared<Inside>(options, std::move(environment))) {}

RemoteStore::~RemoteStore() = default;

std::shared_ptr<const OpenedFile>
RemoteStore::open(const std::string& url) const {
  auto& inside = *inside_;
  {
    const std::lock_guard guard{inside.mutex};
    if (const auto at = inside.known.find(url); at != inside.known.end())
      return std::make_shared<const Object>(inside_, url, at->second);
  }
  const auto& state = inside.know(url, inside.fetcher.state(url));
  return std::make_shared<const Object>(inside_, url, state);
}

std::vector<std::string> RemoteStore::list(const std::string& pattern) const {
  auto place = parse_s3_place(pattern);
  const auto wanted = place.key;
  const auto special = wanted.find_first_of("*?[\\");
  const bool is_prefix = special == wanted.npos && wanted.ends_with('/');
  place.key = wanted.substr(0, special);
  const bool flat = !is_prefix
                    && (special == wanted.npos
                        || wanted.find('/', special) == wanted.npos);
  std::vector<std::string> urls;
  for (auto& object : inside_->fetcher.list(place, flat)) {
    if (object.key.ends_with('/')) // stands for a folder
      continue;
    if (!is_prefix && object.key != wanted
        && ::fnmatch(wanted.c_str(), object.key.c_str(),
                     FNM_PATHNAME | FNM_PERIOD)
             != 0)
      continue;
    auto url = S3Place{place.bucket, std::move(object.key)}.url();
    // Some stores list tags without the quotes that their answers have.
    if (is_strong_tag(object.tag))
      inside_->know(url, {object.bytes, object.tag});
    urls.push_back(std::move(url));
  }
  std::sort(urls.begin(), urls.end());
  urls.erase(std::unique(urls.begin(), urls.end()), urls.end());
  return urls;
}

StoreCounts RemoteStore::counts() const {
  return inside_->counts();
}

StoreCounts RemoteStore::process_counts() {
  auto& all = Inside::all();
  const std::lock_guard guard{all.mutex};
  auto sum = all.gone;
  for (const auto* inside : all.there)
    sum += inside->counts();
  return sum;
}

std::shared_ptr<RemoteStore> open_store(const StoreOptions& options) {
  return std::make_shared<RemoteStore>(options, process_environment());
}

} // namespace troupe
