#include "kernels/table/row_memory.hpp"

#include "kernels/require.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

namespace troupe::kernels {

namespace {

constexpr uint64_t magic = 0x31656c626174; // "table1"
constexpr uint64_t page_bytes = 4096;
constexpr uint64_t slab_head_bytes = 64;
/// A slab is cut into some sixteen blocks, as far as these allow.
constexpr uint64_t least_slab_bytes = uint64_t{16} << 10;
constexpr uint64_t most_slab_bytes = uint64_t{1} << 20;

uint64_t rounded(uint64_t bytes, uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

} // namespace

struct RowMemory::Head {
  std::atomic<uint64_t> magic;
  uint64_t shape;
  std::atomic<uint64_t> end; ///< of the last slab
};

namespace {

struct SlabHead {
  uint64_t size;
  uint64_t bytes;
};

uint64_t fingerprint(const RowShape& shape) {
  return shape.width << 8 | uint64_t{shape.slots} << 1
         | (shape.counted ? 1 : 0);
}

} // namespace

RowMemory::RowMemory(RowShape shape, int descriptor, uint64_t offset)
  : shape_(shape), descriptor_(descriptor), offset_(offset) {
  require(shape.width > 0, "rows without a width");
  for (size_t i = 0; i < sizes.size(); ++i)
    block_bytes_[i] = rounded(sizeof(RowBlock) + sizes[i] * shape.row_bytes(),
                              16);
  if (block_bytes_.back() > most_bytes / 64)
    throw std::runtime_error("a table's rows of "
                             + std::to_string(shape.row_bytes())
                             + " bytes are too wide");
  const auto size = static_cast<off_t>(offset + most_bytes);
  struct stat found {};
  if (descriptor >= 0
      && (fstat(descriptor, &found) != 0
          || (found.st_size < size && ftruncate(descriptor, size) != 0)))
    throw std::runtime_error(std::string{"a table's memory: "}
                             + std::strerror(errno));
  const int flags = descriptor >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
  auto* address = mmap(nullptr, most_bytes, PROT_READ | PROT_WRITE,
                       flags | MAP_NORESERVE, descriptor,
                       static_cast<off_t>(descriptor >= 0 ? offset : 0));
  if (address == MAP_FAILED)
    throw std::runtime_error("a table's range of addresses: "
                             + std::string{std::strerror(errno)});
  memory_ = static_cast<std::byte*>(address);
  if (head().magic.load() == magic && head().shape == fingerprint(shape_))
    walk();
  else
    clear();
}

RowMemory::~RowMemory() {
  munmap(memory_, most_bytes);
}

RowMemory::Head& RowMemory::head() const {
  return *reinterpret_cast<Head*>(memory_);
}

void RowMemory::clear() {
  head().magic.store(0);
  slabs_.clear();
  for (auto& list : free_)
    list.clear();
  madvise(memory_, most_bytes, descriptor_ >= 0 ? MADV_REMOVE : MADV_DONTNEED);
  head().shape = fingerprint(shape_);
  head().end.store(page_bytes);
  head().magic.store(magic);
}

void RowMemory::walk() {
  const auto end = std::min(head().end.load(), most_bytes - most_undo_bytes);
  for (auto at = page_bytes; at < end;) {
    const auto& slab = *reinterpret_cast<const SlabHead*>(memory_ + at);
    if (slab.size >= sizes.size() || slab.bytes == 0 || slab.bytes > end - at)
      throw std::runtime_error("a table's memory is damaged");
    slabs_.push_back({at + slab_head_bytes, at + slab.bytes,
                      static_cast<uint32_t>(slab.size)});
    at += slab.bytes;
  }
}

uint32_t RowMemory::size_for(uint32_t rows) {
  const auto at = std::lower_bound(sizes.begin(), sizes.end(), rows);
  require(rows > 0 && at != sizes.end(), "a block of more rows than a page");
  return static_cast<uint32_t>(at - sizes.begin());
}

void RowMemory::add_slab(uint32_t size) {
  const auto block = block_bytes_[size];
  const auto wanted = std::clamp(block * 16, least_slab_bytes, most_slab_bytes);
  const auto bytes = rounded(slab_head_bytes + std::max(wanted, block),
                             page_bytes);
  const auto at = head().end.load();
  if (bytes > most_bytes - most_undo_bytes - at)
    throw std::runtime_error("a part of a table is above "
                             + std::to_string(most_bytes - most_undo_bytes)
                             + " bytes; add shards or limit its bytes");
  auto& slab = *reinterpret_cast<SlabHead*>(memory_ + at);
  slab.size = size;
  slab.bytes = bytes;
  head().end.store(at + bytes);
  slabs_.push_back({at + slab_head_bytes, at + bytes, size});
  auto& list = free_[size];
  const auto blocks = (bytes - slab_head_bytes) / block;
  for (auto i = blocks; i-- > 0;) // the first one is taken first
    list.push_back(at + slab_head_bytes + i * block);
}

uint64_t RowMemory::take(uint32_t rows) {
  const auto size = size_for(rows);
  if (free_[size].empty())
    add_slab(size);
  const auto block = free_[size].back();
  free_[size].pop_back();
  return block;
}

void RowMemory::give(uint64_t block) {
  auto* given = at(block);
  const auto size = size_for(static_cast<uint32_t>(std::popcount(given->bits)));
  std::atomic_ref{given->bits}.store(0);
  free_[size].push_back(block);
}

uint64_t RowMemory::bytes() const {
  return head().end.load();
}

} // namespace troupe::kernels
