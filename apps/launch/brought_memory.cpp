#include "apps/launch/brought_memory.hpp"

#include "actors/process/base64.hpp"
#include "kernels/base/control_group.hpp"

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

namespace troupe {
namespace {

/// Bytes that a line has; characters of them fill whole threes.
constexpr uint64_t part_bytes = uint64_t{3} << 17;

/// Below it nobody is refused, as by need_memory().
constexpr uint64_t always_free = uint64_t{64} << 20;

/// What pages may take beyond their bytes.
constexpr uint64_t loose_bytes = uint64_t{16} << 20;

struct Extent {
  uint64_t at = 0;
  uint64_t bytes = 0;
};

/// Where there is anything.
std::vector<Extent> extents_of(int file) {
  std::vector<Extent> out;
  for (off_t at = 0; (at = ::lseek(file, at, SEEK_DATA)) >= 0;) {
    const auto end = ::lseek(file, at, SEEK_HOLE);
    if (end <= at)
      break;
    out.push_back({static_cast<uint64_t>(at), static_cast<uint64_t>(end - at)});
    at = end;
  }
  return out;
}

/// Empty: it cannot be read.
std::string bytes_at(int file, Extent part) {
  std::string out(part.bytes, '\0');
  const auto count = ::pread(file, out.data(), out.size(),
                             static_cast<off_t>(part.at));
  if (count != static_cast<ssize_t>(out.size()))
    out.clear();
  return out;
}

} // namespace

void bring_memory(
  const std::string& role, const std::string& path,
  const std::function<void(const nlohmann::json& message)>& report) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  const auto extents = file ? extents_of(file.get()) : std::vector<Extent>{};
  const auto bytes = std::accumulate(
    extents.begin(), extents.end(), uint64_t{0},
    [](uint64_t sum, const Extent& one) { return sum + one.bytes; });
  report({{"is", "memory"}, {"role", role}, {"bytes", bytes}});
  for (const auto& extent : extents)
    for (uint64_t done = 0; done < extent.bytes; done += part_bytes) {
      const Extent part{extent.at + done,
                        std::min(part_bytes, extent.bytes - done)};
      report({{"is", "part"},
              {"role", role},
              {"at", part.at},
              {"text", in_base64(bytes_at(file.get(), part))}});
    }
  report({{"is", "brought"}, {"role", role}});
}

BroughtRoom::BroughtRoom(std::function<uint64_t()> left)
  : left_(std::move(left)) {}

/// `mutex_` is held.
void BroughtRoom::need(uint64_t bytes) const {
  if (bytes <= always_free)
    return;
  if (const auto left = left_(); bytes > left)
    throw NoRoomError("what is still to come from hosts takes "
                      + in_units(bytes) + " of memory and " + in_units(left)
                      + " are free here; take a machine with more memory");
}

void BroughtRoom::expect(uint64_t bytes) {
  const std::lock_guard guard{mutex_};
  constexpr uint64_t most = ~uint64_t{0};
  need(bytes > most - to_come_ ? most : to_come_ + bytes);
  to_come_ += bytes;
}

void BroughtRoom::check() const {
  const std::lock_guard guard{mutex_};
  need(to_come_);
}

void BroughtRoom::release(uint64_t bytes) {
  const std::lock_guard guard{mutex_};
  to_come_ -= bytes;
}

void BroughtRoom::begin() {
  const std::lock_guard guard{mutex_};
  ++brought_;
}

void BroughtRoom::end() {
  const std::lock_guard guard{mutex_};
  if (--brought_ == 0)
    told_ = false;
}

bool BroughtRoom::is_news() {
  const std::lock_guard guard{mutex_};
  return !std::exchange(told_, true);
}

BroughtMemory::BroughtMemory(std::shared_ptr<BroughtRoom> room)
  : room_(std::move(room)) {
  room_->begin();
}

BroughtMemory::~BroughtMemory() {
  if (!room_)
    return;
  room_->release(missing_);
  room_->end();
}

BroughtMemory::BroughtMemory(BroughtMemory&& other) noexcept
  : room_(std::move(other.room_)),
    file_(std::move(other.file_)),
    missing_(std::exchange(other.missing_, 0)),
    most_taken_(other.most_taken_) {}

BroughtMemory& BroughtMemory::operator=(BroughtMemory&& other) noexcept {
  std::swap(room_, other.room_);
  std::swap(file_, other.file_);
  std::swap(missing_, other.missing_);
  std::swap(most_taken_, other.most_taken_);
  return *this;
}

void BroughtMemory::expect(uint64_t bytes) {
  if (bytes == 0)
    return;
  room_->expect(bytes);
  room_->release(std::exchange(missing_, bytes));
  file_.reset(::memfd_create("brought", MFD_CLOEXEC));
  if (!file_)
    throw InputError(std::string{"no memory for it: "} + std::strerror(errno));
  most_taken_ = 2 * bytes + loose_bytes;
}

void BroughtMemory::add(uint64_t at, const std::string& text) {
  room_->check();
  const auto bytes = of_base64(text);
  if (!bytes || bytes->empty() || bytes->size() > missing_)
    throw InputError("it came damaged");
  if (::pwrite(file_.get(), bytes->data(), bytes->size(),
               static_cast<off_t>(at))
      != static_cast<ssize_t>(bytes->size()))
    throw InputError(std::string{"no memory for it: "} + std::strerror(errno));
  missing_ -= bytes->size();
  room_->release(bytes->size());
  // Bytes far from each other take a page each.
  struct stat taken {};
  if (::fstat(file_.get(), &taken) != 0
      || static_cast<uint64_t>(taken.st_blocks) * 512 > most_taken_)
    throw InputError("it came damaged");
}

std::string BroughtMemory::path() const {
  return "/proc/" + std::to_string(::getpid()) + "/fd/"
         + std::to_string(file_.get());
}

} // namespace troupe
