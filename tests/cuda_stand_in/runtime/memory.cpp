#include "tests/cuda_stand_in/runtime/memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace cuda_stand_in {

namespace {

constexpr size_t alignment = 256; // what cudaMalloc promises
constexpr size_t red_zone = 256;
constexpr size_t page = 4096;

char* reserve(size_t bytes) {
  auto* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) {
    std::perror("cuda_stand_in: cannot reserve memory");
    std::abort();
  }
  madvise(at, bytes, MADV_DONTDUMP);
  return static_cast<char*>(at);
}

size_t rounded_up(size_t bytes, size_t to) {
  return (bytes + to - 1) / to * to;
}

} // namespace

void Memory::start(uint32_t devices, size_t bytes_each) {
  devices_ = devices;
  device_bytes_ = rounded_up(bytes_each, page);
  const auto pinned_bytes = size_t{4} << 30;
  for (uint32_t i = 0; i < devices; ++i)
    regions_.push_back({i * device_bytes_, (i + 1) * device_bytes_, 0, 0, {}});
  const auto all = devices * device_bytes_;
  regions_.push_back({all, all + pinned_bytes, 0, 0, {}});
  shared_at_ = all + pinned_bytes;
  total_ = shared_at_ + rounded_up(shared_bytes, page);
  for (auto& region : regions_)
    region.next = region.begin;
  base_ = reserve(total_);
  state_bytes_ = total_ / 4;
  cells_bytes_ = total_ / 2 * sizeof(Cell);
  state_ = reinterpret_cast<uint8_t*>(reserve(state_bytes_));
  cells_ = reinterpret_cast<Cell*>(reserve(cells_bytes_));
  close();
}

const Memory::Region& Memory::region(uint32_t where) const {
  return regions_[where == pinned ? devices_ : where];
}
Memory::Region& Memory::region(uint32_t where) {
  return regions_[where == pinned ? devices_ : where];
}

void Memory::open() {
  mprotect(base_, devices_ * device_bytes_, PROT_READ | PROT_WRITE);
}

void Memory::close() {
  mprotect(base_, devices_ * device_bytes_, PROT_NONE);
}

bool Memory::owns(const void* at) const {
  return static_cast<const char*>(at) >= base_
         && static_cast<const char*>(at) < base_ + shared_at_;
}

uint32_t Memory::place_of(const void* at) const {
  const auto offset = static_cast<size_t>(static_cast<const char*>(at) - base_);
  const auto index = offset / device_bytes_;
  return index < devices_ ? static_cast<uint32_t>(index) : pinned;
}

size_t Memory::free_bytes(uint32_t device) const {
  return device_bytes_ - region(device).used;
}

void* Memory::allocate(uint32_t where, size_t bytes) {
  auto& own = region(where);
  if (bytes > own.end - own.begin)
    return nullptr;
  const auto whole = rounded_up(bytes, alignment) + red_zone;
  if (own.used + whole > own.end - own.begin)
    return nullptr;
  // From where the last one went on, then from the begin.
  auto at = own.next;
  for (int round = 0; round < 2; ++round) {
    auto next = own.blocks.lower_bound(at);
    if (next != own.blocks.begin()) {
      const auto before = std::prev(next);
      if (before->second.lives)
        at = std::max(at, rounded_up(before->first + before->second.bytes,
                                     alignment)
                            + red_zone);
    }
    while (at + whole <= own.end) {
      next = own.blocks.lower_bound(at);
      while (next != own.blocks.end() && next->first < at + whole
             && !next->second.lives)
        ++next;
      if (next == own.blocks.end() || next->first >= at + whole) {
        own.blocks.erase(own.blocks.lower_bound(at),
                         own.blocks.lower_bound(at + whole));
        own.blocks[at] = {bytes, true};
        own.used += whole;
        own.next = at + whole;
        mark(at, bytes, 0x0f, true);
        if (where == pinned) // the host's writes are not seen
          mark(at, bytes, 0xf0, true);
        return base_ + at;
      }
      at = rounded_up(next->first + next->second.bytes, alignment) + red_zone;
    }
    at = own.begin;
  }
  return nullptr;
}

bool Memory::release(uint32_t where, void* at) {
  if (!owns(at) || place_of(at) != where)
    return false;
  auto& own = region(where);
  const auto offset = static_cast<size_t>(static_cast<char*>(at) - base_);
  const auto found = own.blocks.find(offset);
  if (found == own.blocks.end() || !found->second.lives)
    return false;
  found->second.lives = false;
  const auto bytes = found->second.bytes;
  own.used -= rounded_up(bytes, alignment) + red_zone;
  mark(offset, bytes, 0xff, false);
  auto give_back = [](char* begin, size_t size) {
    const auto first = rounded_up(reinterpret_cast<uintptr_t>(begin), page);
    const auto last = (reinterpret_cast<uintptr_t>(begin) + size) / page * page;
    if (first < last)
      madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
  };
  give_back(base_ + offset, bytes);
  give_back(reinterpret_cast<char*>(cells_ + offset / 2),
            bytes / 2 * sizeof(Cell));
  return true;
}

void Memory::mark(size_t offset, size_t bytes, uint8_t mask, bool set) {
  auto change = [&](size_t word, uint8_t bits) {
    state_[word] = set ? state_[word] | bits
                       : state_[word] & static_cast<uint8_t>(~bits);
  };
  const auto end = offset + bytes;
  auto at = offset;
  for (; at < end && at % 4 != 0; ++at)
    change(at / 4, static_cast<uint8_t>((0x11 << at % 4) & mask));
  auto* words = state_ + at / 4;
  const auto count = (end - at) / 4;
  if (set)
    for (size_t i = 0; i < count; ++i)
      words[i] |= mask;
  else
    for (size_t i = 0; i < count; ++i)
      words[i] &= static_cast<uint8_t>(~mask);
  for (at += count * 4; at < end; ++at)
    change(at / 4, static_cast<uint8_t>((0x11 << at % 4) & mask));
}

void Memory::forget_accesses() {
  madvise(cells_, cells_bytes_, MADV_DONTNEED);
}

void Memory::clear_shared(size_t offset, size_t bytes) {
  std::memset(state_ + (shared_at_ + offset) / 4, 0, (bytes + 3) / 4);
}

void Memory::allow_shared(size_t offset, size_t bytes) {
  mark(shared_at_ + offset, bytes, 0x0f, true);
}

std::string Memory::touch(const void* at, size_t bytes, bool writes,
                          uint32_t device) {
  if (bytes == 0)
    return {};
  if (!owns(at))
    return "touches the host's memory";
  const auto place = place_of(at);
  if (place != device && place != pinned)
    return "touches another device's memory";
  const auto offset = static_cast<size_t>(static_cast<const char*>(at) - base_);
  // Eight words at once where all is well.
  const uint64_t well = writes ? 0x0f0f0f0f0f0f0f0f : 0xffffffffffffffff;
  for (auto byte = offset; byte < offset + bytes;) {
    if (byte % 4 == 0 && byte + 32 <= offset + bytes) {
      uint64_t states = 0;
      std::memcpy(&states, state_ + byte / 4, sizeof states);
      if ((states & well) == well) {
        byte += 32;
        continue;
      }
    }
    const auto& state = state_[byte / 4];
    const auto whole = byte % 4 == 0 && byte + 4 <= offset + bytes;
    const uint32_t part = whole ? 0xf : 1u << byte % 4;
    const auto* here = base_ + byte;
    if ((state & part) != part)
      return (writes ? "writes outside of what is allocated: "
                     : "reads outside of what is allocated: ")
             + describe(here);
    if (!writes && (state >> 4 & part) != part)
      return "reads what nothing has written: " + describe(here);
    byte += whole ? 4 : 1;
  }
  if (writes)
    mark(offset, bytes, 0xf0, true);
  return {};
}

std::string Memory::describe(const void* at) const {
  char text[160];
  const auto* byte = static_cast<const char*>(at);
  if (byte >= base_ + shared_at_ && byte < base_ + total_) {
    std::snprintf(text, sizeof text, "byte %zu of the block's shared memory",
                  static_cast<size_t>(byte - base_) - shared_at_);
    return text;
  }
  if (!owns(at)) {
    std::snprintf(text, sizeof text, "%p", at);
    return text;
  }
  const auto place = place_of(at);
  const auto& blocks = region(place).blocks;
  const auto offset = static_cast<size_t>(byte - base_);
  const auto name = place == pinned ? std::string("pinned memory")
                                    : "cuda:" + std::to_string(place);
  auto next = blocks.upper_bound(offset);
  if (next == blocks.begin())
    return "an address of " + name + " before all allocations";
  const auto& [begin, block] = *std::prev(next);
  const auto into = offset - begin;
  std::snprintf(text, sizeof text, "%s %zu of %s%zu bytes at %p of %s",
                into < block.bytes ? "byte" : "beyond the end, at byte", into,
                block.lives ? "" : "freed ", block.bytes,
                static_cast<void*>(base_ + begin), name.c_str());
  return text;
}

} // namespace cuda_stand_in
