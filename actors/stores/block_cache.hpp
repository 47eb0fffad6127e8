#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace troupe {

/// Blocks of objects in a folder of this machine, for all its processes and
/// the runs to come. A file a block, whole or not there; what it says is
/// checked page by page as it is read. All files together take no more than
/// `max_bytes` but for those that are being written; what was not used for
/// longest goes. A process keeps the 128 that it read last open, which delays
/// that their room is free. Any thread, any process.
///
///   DIR/ab/cdef….block   head | sums of its pages | to 8192 | its bytes
///   DIR/used             bytes of all files, as far as is known
class BlockCache {
public:
  static constexpr uint64_t block_bytes = uint64_t{1} << 20;
  static constexpr uint64_t page_bytes = 4096;

  /// What tells blocks apart: the object, its state, and which one it is.
  struct Key {
    std::string object; ///< a URL and its state: any text
    uint64_t block = 0;
  };

  /// Makes the folder. Errors: FileError with the system's reason; InputError
  /// for one that is another user's, or that others may write to; UsageError
  /// where `max_bytes` holds fewer than 16 blocks.
  BlockCache(std::string dir, uint64_t max_bytes);
  ~BlockCache();

  /// Copies out what lies at `offset` of a block. False where the block is not
  /// there, is of another length than `block_size`, or is damaged: then it is
  /// removed.
  bool read(const Key& key, uint64_t block_size, uint64_t offset,
            std::span<std::byte> out);

  /// Whether a block is there, as far as its name says.
  bool has(const Key& key) const;

  /// Keeps a block, whole or not at all. Nothing is lost where that cannot be:
  /// a full disk, a folder that another process has locked for long.
  void keep(const Key& key, std::span<const std::byte> bytes);

  uint64_t hits() const { return hits_; }
  uint64_t misses() const { return misses_; }
  uint64_t damaged() const { return damaged_; } ///< blocks that were removed
  uint64_t removed() const { return removed_; } ///< to make room

private:
  struct OpenBlock;
  struct OpenBlocks;
  std::shared_ptr<OpenBlock> opened(const Key& key, uint64_t block_size);
  void forget(const Key& key);
  std::string path_of(const std::string& digest) const;
  uint64_t known_bytes() const;
  void note_bytes(uint64_t bytes) const;
  uint64_t make_room(uint64_t bytes);

  std::string dir_;
  uint64_t max_bytes_;
  std::unique_ptr<OpenBlocks> open_;
  std::atomic<uint64_t> hits_ = 0;
  std::atomic<uint64_t> misses_ = 0;
  std::atomic<uint64_t> damaged_ = 0;
  std::atomic<uint64_t> removed_ = 0;
};

} // namespace troupe
