#include "actors/links/link_memory.hpp"

#include "actors/sockets/addresses.hpp"
#include "kernels/base/error.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <utility>

namespace troupe {
namespace {

/// Sizes are powers of two, so that what was given back fits again; pages that
/// nobody touches take no memory.
constexpr size_t smallest = 1024;

bool within(const std::byte* first, size_t bytes, const void* wanted,
            size_t wanted_bytes, uint64_t& offset) {
  const auto* from = static_cast<const std::byte*>(wanted);
  const std::less<const std::byte*> before;
  if (before(from, first) || before(first + bytes, from))
    return false;
  offset = static_cast<uint64_t>(from - first);
  return wanted_bytes <= bytes - offset;
}

} // namespace

LinkMemory::LinkMemory(size_t bytes) : arena_(bytes) {
  // An image of a crashed process needs no tensors, and must not write holes.
  ::madvise(arena_.data(), arena_.bytes(), MADV_DONTDUMP);
}

std::shared_ptr<LinkMemory> LinkMemory::make(size_t bytes) {
  try {
    return std::shared_ptr<LinkMemory>{new LinkMemory{bytes}};
  } catch (const InputError&) {
    return nullptr;
  }
}

std::shared_ptr<float> LinkMemory::take(size_t count) {
  const auto size = std::bit_ceil(std::max(count, smallest));
  float* values = nullptr;
  {
    std::lock_guard lock{mutex_};
    auto& idle = idle_[size];
    if (!idle.empty()) {
      values = idle.back();
      idle.pop_back();
    } else {
      try {
        values = arena_.allocate(size);
      } catch (const InputError&) {
        return nullptr;
      }
    }
  }
  return {values, [self = shared_from_this(), size](float* memory) {
            self->give_back(memory, size);
          }};
}

void LinkMemory::give_back(float* values, size_t size) {
  std::lock_guard lock{mutex_};
  idle_[size].push_back(values);
}

TensorView LinkMemory::copy(std::span<const float> values) {
  auto memory = values.empty() ? nullptr : take(values.size());
  if (!memory)
    return TensorView::copy(values);
  std::memcpy(memory.get(), values.data(), values.size_bytes());
  const auto* first = memory.get();
  return {std::move(memory), first, values.size()};
}

bool LinkMemory::add(const std::byte* first, size_t bytes, int descriptor) {
  if (::fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK) != 0)
    return false;
  std::lock_guard lock{mutex_};
  added_.emplace(Shared{first, bytes, duplicate(descriptor)});
  return true;
}

std::vector<Descriptor> LinkMemory::to_pass() const {
  std::lock_guard lock{mutex_};
  std::vector<Descriptor> all;
  all.push_back(duplicate(arena_.descriptor()));
  if (added_)
    all.push_back(duplicate(added_->descriptor.get()));
  return all;
}

std::optional<MemoryPlace> LinkMemory::find(const void* first,
                                            size_t bytes) const {
  MemoryPlace place;
  if (within(arena_.data(), arena_.bytes(), first, bytes, place.offset))
    return place;
  std::lock_guard lock{mutex_};
  place.segment = 1;
  if (added_
      && within(added_->first, added_->bytes, first, bytes, place.offset))
    return place;
  return std::nullopt;
}

void LinkMemory::keep(std::vector<LentView> lent) {
  std::lock_guard lock{mutex_};
  std::move(lent.begin(), lent.end(), std::back_inserter(kept_));
}

void LinkMemory::let_go(const Fence& begun) {
  std::vector<LentView> read; // their end takes the lock
  std::lock_guard lock{mutex_};
  const auto first = std::partition(kept_.begin(), kept_.end(),
                                    [&](const LentView& lent) {
                                      return !begun.is_after(lent.fence);
                                    });
  std::move(first, kept_.end(), std::back_inserter(read));
  kept_.erase(first, kept_.end());
}

std::shared_ptr<const PeerMemory>
PeerMemory::map(std::vector<Descriptor> passed) {
  std::shared_ptr<PeerMemory> memory{new PeerMemory};
  for (const auto& descriptor : passed) {
    const int seals = ::fcntl(descriptor.get(), F_GET_SEALS);
    struct stat found {};
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0
        || ::fstat(descriptor.get(), &found) != 0 || found.st_size <= 0)
      return nullptr;
    const auto bytes = static_cast<size_t>(found.st_size);
    auto* first = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED,
                         descriptor.get(), 0);
    if (first == MAP_FAILED)
      return nullptr;
    ::madvise(first, bytes, MADV_DONTDUMP);
    memory->segments_.push_back({static_cast<std::byte*>(first), bytes});
  }
  if (memory->segments_.empty())
    return nullptr;
  return memory;
}

PeerMemory::~PeerMemory() {
  for (const auto& segment : segments_)
    ::munmap(segment.first, segment.bytes);
}

const std::byte* PeerMemory::at(const MemoryPlace& place, size_t bytes) const {
  if (place.segment >= segments_.size())
    return nullptr;
  const auto& segment = segments_[place.segment];
  if (place.offset % sizeof(float) != 0 || place.offset > segment.bytes
      || bytes > segment.bytes - place.offset)
    return nullptr;
  return segment.first + place.offset;
}

} // namespace troupe
