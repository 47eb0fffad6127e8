#include "actors/shard_store.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace troupe {
namespace {

constexpr uint64_t magic = 0x3365726f74735254; // "TRstore3"
constexpr uint32_t most_rounds = 3;
constexpr uint64_t unwritten = ~uint64_t{0};

size_t rounded(size_t bytes) {
  return (bytes + 63) / 64 * 64;
}

} // namespace

struct ShardStore::Header {
  std::atomic<uint64_t> magic;
  uint64_t job;
  uint64_t bytes;
  uint64_t slices;
};

struct ShardStore::Record {
  /// Twice the newest version, plus one while the other bank is not whole:
  /// one word, so that a kill cannot fall between the two.
  std::atomic<uint64_t> word;
  struct Leases {
    uint64_t floor;
    uint64_t count;
    uint64_t above[max_exceptions];
  } leases[2];
};

struct ShardStore::Scalars {
  std::atomic<uint64_t> word; ///< step + 1; 0: not whole
  uint64_t count;
  float* values() { return reinterpret_cast<float*>(this + 1); }
};

ShardStore::ShardStore(const Job& job, std::vector<uint32_t> slices,
                       uint64_t job_id, int descriptor)
  : job_(job),
    slices_(std::move(slices)),
    slots_(state_slots(job.options.rule.kind)) {
  // One for each variable, or a bit for each worker's share.
  const auto most_values = 1 + job.plan.variables.size() + job.shares().size();
  scalars_bytes_ = rounded(sizeof(Scalars) + most_values * sizeof(float));
  bytes_ = rounded(sizeof(Header)) + 2 * most_rounds * scalars_bytes_
           + slices_.size() * rounded(sizeof(Record));
  for (auto id : slices_) {
    const auto count = job_.plan.slices[id].count;
    bank_bytes_.push_back(rounded(count * (1 + slots_) * sizeof(float)));
    offsets_.push_back(bytes_);
    bytes_ += 2 * bank_bytes_.back();
  }
  int flags = MAP_SHARED;
  if (descriptor < 0)
    flags |= MAP_ANONYMOUS;
  struct stat found {};
  if (descriptor >= 0
      && (fstat(descriptor, &found) != 0
          || (static_cast<size_t>(found.st_size) < bytes_
              && ftruncate(descriptor, static_cast<off_t>(bytes_)) != 0)))
    throw std::runtime_error(std::string{"shard state: "}
                             + std::strerror(errno));
  auto* address = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, flags,
                       descriptor, 0);
  if (address == MAP_FAILED)
    throw std::runtime_error("shard state of " + std::to_string(bytes_)
                             + " bytes: " + std::strerror(errno));
  memory_ = static_cast<std::byte*>(address);
  auto& header = *reinterpret_cast<Header*>(memory_);
  taken_over_ = header.magic.load() == magic && header.job == job_id
                && header.bytes == bytes_ && header.slices == slices_.size();
  if (taken_over_) {
    for (size_t i = 0; i < slices_.size(); ++i)
      if (record(i).word.load() == unwritten)
        initialise(i);
    return;
  }
  header.magic.store(0);
  reset();
  header.job = job_id;
  header.bytes = bytes_;
  header.slices = slices_.size();
  header.magic.store(magic);
}

ShardStore::~ShardStore() {
  if (memory_ != nullptr)
    munmap(memory_, bytes_);
}

ShardStore::Record& ShardStore::record(size_t local) const {
  return *reinterpret_cast<Record*>(memory_ + rounded(sizeof(Header))
                                    + 2 * most_rounds * scalars_bytes_
                                    + local * rounded(sizeof(Record)));
}

ShardStore::Scalars& ShardStore::scalars(uint64_t step, uint32_t round) const {
  return *reinterpret_cast<Scalars*>(memory_ + rounded(sizeof(Header))
                                     + (step % 2 * most_rounds + round)
                                         * scalars_bytes_);
}

void ShardStore::decide(uint64_t step, uint32_t round,
                        const std::vector<float>& values) {
  auto& record = scalars(step, round);
  record.word.store(0);
  record.count = values.size();
  std::copy(values.begin(), values.end(), record.values());
  record.word.store(step + 1);
}

std::vector<float> ShardStore::decided(uint64_t step, uint32_t round) const {
  if (round >= most_rounds)
    return {};
  auto& record = scalars(step, round);
  if (record.word.load() != step + 1)
    return {};
  return {record.values(), record.values() + record.count};
}

void ShardStore::initialise(size_t local) {
  auto& entry = record(local);
  entry.word.store(unwritten);
  const auto& slice = job_.plan.slices[slices_[local]];
  auto* bank = reinterpret_cast<float*>(memory_ + offsets_[local]);
  initialize(job_.graph, job_.options.seed, slice.variable, slice.offset, bank,
             slice.count);
  std::memset(bank + slice.count, 0, slots_ * slice.count * sizeof(float));
  entry.leases[0].floor = 0;
  entry.leases[0].count = 0;
  entry.word.store(1);
}

void ShardStore::reset() {
  for (uint64_t step = 0; step < 2; ++step)
    for (uint32_t round = 0; round < most_rounds; ++round)
      scalars(step, round).word.store(0);
  for (size_t i = 0; i < slices_.size(); ++i)
    initialise(i);
}

uint64_t ShardStore::updates(size_t local) const {
  return record(local).word.load() / 2;
}

uint64_t ShardStore::newest(size_t local) const {
  const auto count = updates(local);
  return count > from_ ? count - from_ : 0;
}

uint64_t ShardStore::oldest(size_t local) const {
  const auto word = record(local).word.load();
  const auto count = word % 2 != 0 || word == 0 ? word / 2 : word / 2 - 1;
  return count > from_ ? count - from_ : 0;
}

const float* ShardStore::values(size_t local, uint64_t version) const {
  return reinterpret_cast<const float*>(
    memory_ + offsets_[local] + (version + from_) % 2 * bank_bytes_[local]);
}

const float* ShardStore::state(size_t local, uint64_t version) const {
  return values(local, version) + job_.plan.slices[slices_[local]].count;
}

ShardStore::Target ShardStore::begin(size_t local) {
  auto& entry = record(local);
  const auto next = updates(local) + 1;
  entry.word.store((next - 1) * 2 + 1);
  auto* bank = reinterpret_cast<float*>(memory_ + offsets_[local]
                                        + (next % 2) * bank_bytes_[local]);
  return {bank, bank + job_.plan.slices[slices_[local]].count};
}

void ShardStore::commit(size_t local) {
  auto& entry = record(local);
  entry.word.store((updates(local) + 1) * 2);
}

void ShardStore::commit(size_t local, const LeaseSet& applied) {
  auto& entry = record(local);
  auto& leases = entry.leases[(updates(local) + 1) % 2];
  if (applied.above().size() > max_exceptions)
    throw std::runtime_error("more than " + std::to_string(max_exceptions)
                             + " leases are out of order");
  leases.floor = applied.floor();
  leases.count = 0;
  for (auto lease : applied.above())
    leases.above[leases.count++] = lease;
  commit(local);
}

LeaseSet ShardStore::leases(size_t local) const {
  const auto& entry = record(local);
  const auto& leases = entry.leases[updates(local) % 2];
  return {leases.floor,
          std::vector<uint64_t>(leases.above, leases.above + leases.count)};
}

} // namespace troupe
