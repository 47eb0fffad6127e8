#include "kernels/table/row_memory.hpp"

#include "kernels/base/require.hpp"
#include "kernels/files/file_pages.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

namespace troupe::kernels {

namespace {

constexpr uint64_t magic = 0x33656c626174; // "table3"
/// A slab holds some sixteen of the largest blocks, as far as these allow.
constexpr uint64_t min_slab_bytes = uint64_t{16} << 10;
constexpr uint64_t max_slab_bytes = uint64_t{1} << 20;
/// Sizes of blocks to a doubling: with eight a block has a sixteenth more than
/// it needs. Where rows are few, most of a size's slab would be free.
constexpr uint64_t sizes_to_double = 8;
constexpr uint64_t sizes_to_double_few = 2;
/// Taken of a file at a time for what undoes an update.
constexpr uint64_t undo_piece = uint64_t{64} << 10;
/// Slabs in the bytes of a limit, at least.
constexpr uint64_t slabs_in_limit = 16;

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
  std::atomic<uint64_t> size; ///< of its blocks, index into sizes
};

uint64_t fingerprint(const RowShape& shape) {
  return (shape.width << 8 | uint64_t{shape.slots} << 1
          | (shape.with_word ? 1 : 0))
         ^ shape.limit << 32;
}

} // namespace

/// Rows of a block: enough for one call of a rule's loop, few enough that a new
/// row among them costs little.
uint32_t RowShape::max_rows() const {
  constexpr size_t usual_bytes = 8192;
  return static_cast<uint32_t>(
    std::clamp<size_t>(usual_bytes / row_bytes(), page_ids, 512));
}

size_t RowShape::head_bytes(size_t pages) {
  return sizeof(RowBlock) + pages * sizeof(IdPage)
         + rounded(pages * sizeof(uint16_t), sizeof(uint64_t));
}

RowMemory::RowMemory(RowShape shape, int descriptor, uint64_t offset)
  : shape_(shape), descriptor_(descriptor), offset_(offset) {
  require(shape.width > 0, "rows without a width");
  const auto max_rows = shape.max_rows();
  const auto largest = shape.block_bytes(max_rows, max_rows);
  if (largest > max_bytes / 64)
    throw std::runtime_error("a table's rows of "
                             + std::to_string(shape.row_bytes())
                             + " bytes are too wide");
  const auto sizes = shape.limit > 0 ? sizes_to_double_few : sizes_to_double;
  for (uint64_t bytes = rounded(shape.block_bytes(1, 1), 16);
       sizes_.empty() || sizes_.back() < largest;
       bytes = rounded(bytes + bytes / sizes, 16))
    sizes_.push_back(bytes);
  roomy_.resize(sizes_.size());
  uint64_t usual = largest * 16;
  if (shape.limit > 0)
    usual = std::min(usual, shape.limit / slabs_in_limit);
  slab_bytes_ =
    rounded(slab_head_bytes
              + std::max(std::clamp(usual, min_slab_bytes, max_slab_bytes),
                         sizes_.back()),
            page_bytes);
  const auto size = static_cast<off_t>(offset + max_bytes);
  struct stat found {};
  if (descriptor >= 0
      && (fstat(descriptor, &found) != 0
          || (found.st_size < size && ftruncate(descriptor, size) != 0)))
    throw std::runtime_error(std::string{"a table's memory: "}
                             + std::strerror(errno));
  bounded_ = descriptor >= 0 && lies_in_bounds(descriptor);
  take_file(0, page_bytes);
  take_file(undo_begin, undo_taken_);
  const int flags = descriptor >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
  auto* address = mmap(nullptr, max_bytes, PROT_READ | PROT_WRITE,
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
  munmap(memory_, max_bytes);
}

/// Before it is touched.
void RowMemory::take_file(uint64_t begin, uint64_t bytes) {
  if (!bounded_)
    return;
  const FileRange range{offset_ + begin, bytes};
  take_pages(descriptor_, {&range, 1});
}

void RowMemory::need_undo(uint64_t bytes) {
  if (!bounded_ || bytes <= undo_taken_)
    return;
  const auto end = rounded(bytes, undo_piece);
  take_file(undo_begin + undo_taken_, end - undo_taken_);
  undo_taken_ = end;
}

RowMemory::Head& RowMemory::head() const {
  return *reinterpret_cast<Head*>(memory_);
}

void RowMemory::clear() {
  head().magic.store(0);
  slabs_.clear();
  empty_.clear();
  for (auto& list : roomy_)
    list.clear();
  // Pages that are read whatever there is stay taken.
  const int gives = descriptor_ >= 0 ? MADV_REMOVE : MADV_DONTNEED;
  madvise(memory_ + page_bytes, undo_begin - page_bytes, gives);
  madvise(undo() + page_bytes, max_undo_bytes - page_bytes, gives);
  std::memset(undo(), 0, page_bytes);
  undo_taken_ = page_bytes;
  head().shape = fingerprint(shape_);
  head().end.store(page_bytes);
  head().magic.store(magic);
}

void RowMemory::walk() {
  const auto end = head().end.load();
  if (end < page_bytes || end > max_bytes - max_undo_bytes)
    throw std::runtime_error("a table's memory is damaged");
  slabs_.resize((end - page_bytes) / slab_bytes_);
  for (uint32_t id = 0; id < slabs_.size(); ++id) {
    const auto size =
      reinterpret_cast<const SlabHead*>(memory_ + begin(id))->size.load();
    if (size >= sizes_.size())
      throw std::runtime_error("a table's memory is damaged");
    auto& slab = slabs_[id];
    slab.size = static_cast<uint32_t>(size);
    const auto blocks = (slab_bytes_ - slab_head_bytes) / sizes_[size];
    slab.fresh = first_block(id) + blocks * sizes_[size];
    slab.touched = begin(id) + slab_bytes_;
  }
}

uint32_t RowMemory::size_for(uint64_t bytes) const {
  const auto at = std::lower_bound(sizes_.begin(), sizes_.end(), bytes);
  require(at != sizes_.end(), "a block of more rows than there may be");
  return static_cast<uint32_t>(at - sizes_.begin());
}

bool RowMemory::has_room(uint32_t id) const {
  const auto& slab = slabs_[id];
  return slab.free != 0
         || slab.fresh + sizes_[slab.size] <= begin(id) + slab_bytes_;
}

std::vector<uint32_t>& RowMemory::shelf_of(const Slab& slab) {
  return slab.taken == 0 ? empty_ : roomy_[slab.size];
}

void RowMemory::shelve(uint32_t id) {
  auto& slab = slabs_[id];
  auto& shelf = shelf_of(slab);
  slab.place = static_cast<uint32_t>(shelf.size());
  if (has_room(id))
    shelf.push_back(id);
  else
    slab.place = nowhere;
}

void RowMemory::unshelve(uint32_t id) {
  auto& slab = slabs_[id];
  if (slab.place == nowhere)
    return;
  auto& shelf = shelf_of(slab);
  slabs_[shelf.back()].place = slab.place;
  shelf[slab.place] = shelf.back();
  shelf.pop_back();
  slab.place = nowhere;
}

void RowMemory::put_free(Slab& slab, uint64_t block) {
  at(block)->next = slab.free;
  slab.free = block;
}

/// Cuts an empty slab, or the memory behind all slabs.
uint32_t RowMemory::new_slab(uint32_t size) {
  uint32_t id = 0;
  const auto block = sizes_[size];
  if (!empty_.empty()) {
    id = empty_.back();
    unshelve(id);
    // None of the new blocks is filled, before they are the slab's; what was
    // never written is 0.
    const auto end = std::min(slabs_[id].touched, begin(id) + slab_bytes_);
    for (auto next = first_block(id);
         next < end && next + block <= begin(id) + slab_bytes_; next += block)
      std::atomic_ref{at(next)->filled}.store(0);
  } else {
    id = static_cast<uint32_t>(slabs_.size());
    if (begin(id) + slab_bytes_ > max_bytes - max_undo_bytes)
      throw std::runtime_error("a part of a table is above "
                               + std::to_string(max_bytes - max_undo_bytes)
                               + " bytes; add shards or limit its bytes");
    take_file(begin(id), slab_bytes_);
    slabs_.emplace_back();
    slabs_[id].touched = first_block(id);
  }
  reinterpret_cast<SlabHead*>(memory_ + begin(id))->size.store(size);
  slabs_[id] = {size, 0, 0, first_block(id), slabs_[id].touched, nowhere};
  if (head().end.load() < begin(id) + slab_bytes_)
    head().end.store(begin(id) + slab_bytes_);
  return id;
}

uint64_t RowMemory::take(uint64_t bytes) {
  const auto size = size_for(bytes);
  const auto& roomy = roomy_[size];
  const auto id = roomy.empty() ? new_slab(size) : roomy.back();
  auto& slab = slabs_[id];
  const bool was_empty = slab.taken == 0; // and just cut
  auto block = slab.free;
  if (block != 0) {
    slab.free = at(block)->next;
  } else {
    block = slab.fresh;
    slab.fresh += sizes_[size];
    slab.touched = std::max(slab.touched, slab.fresh);
  }
  ++slab.taken;
  if (was_empty)
    shelve(id);
  else if (!has_room(id))
    unshelve(id);
  return block;
}

void RowMemory::give(uint64_t block) {
  const auto id = slab_of(block);
  auto& slab = slabs_[id];
  std::atomic_ref{at(block)->filled}.store(0);
  if (slab.taken == 1 || slab.place == nowhere) {
    unshelve(id);
    put_free(slab, block);
    --slab.taken;
    shelve(id);
    return;
  }
  put_free(slab, block);
  --slab.taken;
}

std::vector<uint64_t> RowMemory::recover() {
  std::vector<uint64_t> filled;
  for (uint32_t id = 0; id < slabs_.size(); ++id) {
    auto& slab = slabs_[id];
    const auto bytes = sizes_[slab.size];
    for (auto block = first_block(id); block < slab.fresh; block += bytes)
      if (at(block)->filled != 0) {
        filled.push_back(block);
        ++slab.taken;
      } else {
        put_free(slab, block);
      }
    shelve(id);
  }
  return filled;
}

uint64_t RowMemory::bytes() const {
  auto bytes = page_bytes;
  for (uint32_t id = 0; id < slabs_.size(); ++id)
    bytes += rounded(slabs_[id].touched - begin(id), page_bytes);
  return bytes;
}

} // namespace troupe::kernels
