#include "actors/shard/shard_store.hpp"

#include "actors/job/beginning.hpp"
#include "actors/job/first_period.hpp"
#include "actors/job/shard_tables.hpp"
#include "actors/job/slice_update.hpp"
#include "kernels/files/file_pages.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <stdexcept>

namespace troupe {
namespace {

constexpr uint64_t magic = 0x3365726f74735254; // "TRstore3"
constexpr uint32_t max_rounds = 3;
/// What a record's word says: the slice is not here; it is at its beginning,
/// which is being written.
constexpr uint64_t absent = 0;
constexpr uint64_t unwritten = ~uint64_t{0};

size_t rounded(size_t bytes, size_t unit = 64) {
  return (bytes + unit - 1) / unit * unit;
}

size_t page_bytes() {
  return static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

template <class Leases>
void write_leases(Leases& into, const LeaseSet& applied) {
  if (applied.above().size() > ShardStore::max_exceptions)
    throw std::runtime_error("more than "
                             + std::to_string(ShardStore::max_exceptions)
                             + " leases are out of order");
  into.floor = applied.floor();
  into.count = 0;
  for (auto lease : applied.above())
    into.above[into.count++] = lease;
}

} // namespace

struct ShardStore::Header {
  std::atomic<uint64_t> magic;
  uint64_t job;
  uint64_t bytes;
};

struct ShardStore::Record {
  /// Twice the newest version, plus one while the other bank is not whole:
  /// one word, so that a kill cannot fall between the two.
  std::atomic<uint64_t> word;
  std::atomic<uint64_t> lineage;
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

bool ShardStore::is_of(int descriptor, uint64_t job_id) {
  struct {
    uint64_t magic;
    uint64_t job;
  } found{};
  static_assert(offsetof(Header, job) == offsetof(decltype(found), job));
  return pread(descriptor, &found, sizeof found, 0) == sizeof found
         && found.magic == magic && found.job == job_id;
}

ShardStore::ShardStore(const Job& job, const std::vector<uint32_t>& first,
                       uint64_t job_id, int descriptor)
  : job_(job),
    descriptor_(descriptor),
    slots_(state_slots(job.options.rule.kind)),
    beginning_(job.beginning),
    from_(first_period(job).count_from()),
    tables_(job.plan.slices.size()) {
  // One for each variable, or a bit for each worker's share.
  max_values_ = 1 + job.plan.variables.size() + job.shares().size();
  scalars_bytes_ = rounded(sizeof(Scalars) + max_values_ * sizeof(float));
  const auto& slices = job_.plan.slices;
  bytes_ = rounded(rounded(sizeof(Header)) + 2 * max_rounds * scalars_bytes_
                     + slices.size() * rounded(sizeof(Record)),
                   page_bytes());
  for (const auto& slice : slices) {
    bank_bytes_.push_back(rounded(slice.count * (1 + slots_) * sizeof(float)));
    offsets_.push_back(bytes_);
    bytes_ += rounded(2 * bank_bytes_.back(), page_bytes());
  }
  int flags = MAP_SHARED | MAP_NORESERVE;
  if (descriptor < 0)
    flags |= MAP_ANONYMOUS;
  struct stat found {};
  if (descriptor >= 0
      && (fstat(descriptor, &found) != 0
          || (static_cast<size_t>(found.st_size) < bytes_
              && ftruncate(descriptor, static_cast<off_t>(bytes_)) != 0)))
    throw std::runtime_error(std::string{"shard state: "}
                             + std::strerror(errno));
  bounded_ = descriptor >= 0 && lies_in_bounds(descriptor);
  take_first(first, job_id);
  auto* address = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, flags,
                       descriptor, 0);
  if (address == MAP_FAILED)
    throw std::runtime_error("shard state of " + std::to_string(bytes_)
                             + " bytes: " + std::strerror(errno));
  memory_ = static_cast<std::byte*>(address);
  try {
    begin_with(first, job_id);
  } catch (...) {
    munmap(memory_, bytes_);
    throw;
  }
}

void ShardStore::begin_with(const std::vector<uint32_t>& first,
                            uint64_t job_id) {
  auto& header = *reinterpret_cast<Header*>(memory_);
  taken_over_ = header.magic.load() == magic && header.job == job_id
                && header.bytes == bytes_;
  if (taken_over_) {
    for (const auto& slice : job_.plan.slices)
      if (record(slice.id).word.load() == unwritten)
        initialise(slice.id);
      else if (slice.sparse() && holds(slice.id))
        open_table(slice.id, updates(slice.id));
    return;
  }
  header.magic.store(0);
  reset(first, beginning_);
  header.job = job_id;
  header.bytes = bytes_;
  header.magic.store(magic);
}

/// The memory that it begins with, all at once: whoever is refused is told the
/// sum. What is taken over has its own.
void ShardStore::take_first(const std::vector<uint32_t>& first,
                            uint64_t job_id) {
  if (!bounded_)
    return;
  std::vector<FileRange> ranges{{0, records_end()}};
  if (!is_of(descriptor_, job_id))
    for (auto id : first)
      ranges.push_back({offsets_[id], slice_bytes(id)});
  take_pages(descriptor_, ranges);
}

void ShardStore::take_slice(uint32_t id) {
  const FileRange range{offsets_[id], slice_bytes(id)};
  if (bounded_)
    take_pages(descriptor_, {&range, 1});
}

uint64_t ShardStore::records_end() const {
  return offsets_.empty() ? bytes_ : offsets_.front();
}

uint64_t ShardStore::slice_bytes(uint32_t id) const {
  return rounded(2 * bank_bytes_[id], page_bytes());
}

void ShardStore::open_table(uint32_t id, uint64_t version) {
  const auto& slice = job_.plan.slices[id];
  auto options = table_options(job_, slice);
  if (options.idle.any()) // clipping and samples say nothing of a gradient of 0
    options.idle.moment = [this, &slice](uint64_t updates) {
      return slice_update(job_, slice, {updates, updates - from_, 1});
    };
  tables_[id] = std::make_unique<SparseTable>(
    std::move(options), descriptor_, table_offset(job_, slice), version);
}

ShardStore::~ShardStore() {
  if (memory_ != nullptr)
    munmap(memory_, bytes_);
}

ShardStore::Record& ShardStore::record(uint32_t slice) const {
  return *reinterpret_cast<Record*>(memory_ + rounded(sizeof(Header))
                                    + 2 * max_rounds * scalars_bytes_
                                    + slice * rounded(sizeof(Record)));
}

bool ShardStore::holds(uint32_t slice) const {
  const auto word = record(slice).word.load();
  return word != absent && word != unwritten;
}

std::vector<uint32_t> ShardStore::slices() const {
  std::vector<uint32_t> held;
  for (const auto& slice : job_.plan.slices)
    if (holds(slice.id))
      held.push_back(slice.id);
  return held;
}

ShardStore::Scalars& ShardStore::scalars(uint64_t step, uint32_t round) const {
  return *reinterpret_cast<Scalars*>(memory_ + rounded(sizeof(Header))
                                     + (step % 2 * max_rounds + round)
                                         * scalars_bytes_);
}

bool ShardStore::decide(uint64_t step, uint32_t round,
                        const std::vector<float>& values) {
  if (round >= max_rounds || values.size() > max_values_)
    return false;
  auto& record = scalars(step, round);
  record.word.store(0);
  record.count = values.size();
  std::copy(values.begin(), values.end(), record.values());
  record.word.store(step + 1);
  return true;
}

std::vector<ShardStore::Decision> ShardStore::decisions() const {
  std::vector<Decision> all;
  for (uint64_t parity = 0; parity < 2; ++parity)
    for (uint32_t round = 0; round < max_rounds; ++round) {
      const auto word = scalars(parity, round).word.load();
      if (word != 0)
        all.push_back({word - 1, round, decided(word - 1, round)});
    }
  return all;
}

std::vector<float> ShardStore::decided(uint64_t step, uint32_t round) const {
  if (round >= max_rounds)
    return {};
  auto& record = scalars(step, round);
  if (record.word.load() != step + 1)
    return {};
  return {record.values(), record.values() + record.count};
}

ShardStore::Target ShardStore::bank(uint32_t slice, uint64_t updates) const {
  auto* first = reinterpret_cast<float*>(memory_ + offsets_[slice]
                                         + (updates % 2) * bank_bytes_[slice]);
  return {first, first + job_.plan.slices[slice].count};
}

void ShardStore::initialise(uint32_t id) {
  auto& entry = record(id);
  entry.word.store(unwritten);
  take_slice(id);
  if (beginning_)
    return restore(id);
  const auto& slice = job_.plan.slices[id];
  if (slice.sparse()) {
    open_table(id, 0);
    tables_[id]->clear();
    if (has_all_rows(job_, slice))
      tables_[id]->create(all_rows(job_, slice));
  }
  auto first = bank(id, 0);
  initialize(job_.graph, job_.options.seed, slice.variable, slice.offset,
             first.values, slice.count);
  std::memset(first.state, 0, slots_ * slice.count * sizeof(float));
  entry.lineage.store(0);
  entry.leases[0].floor = 0;
  entry.leases[0].count = 0;
  entry.word.store(1);
}

void ShardStore::restore(uint32_t id) {
  const auto& slice = job_.plan.slices[id];
  const auto updates = beginning_->updates(id);
  if (slice.sparse()) {
    open_table(id, 0);
    tables_[id]->clear();
    beginning_->read_rows(slice, [&](const IdPages& ids, const float* rows) {
      tables_[id]->put(ids, rows);
    });
    if (has_all_rows(job_, slice)) // it may be of a run that had none decay
      tables_[id]->create(all_rows(job_, slice));
    tables_[id]->adopt(updates);
  }
  const auto first = bank(id, updates);
  if (!slice.sparse())
    beginning_->read(slice.variable, 0, slice.offset,
                     {first.values, slice.count});
  for (uint32_t slot = 0; slot < slots_ && !slice.sparse(); ++slot)
    beginning_->read(slice.variable, 1 + slot, slice.offset,
                     {first.state + slot * slice.count, slice.count});
  auto& entry = record(id);
  entry.lineage.store(0);
  write_leases(entry.leases[updates % 2], beginning_->leases(id));
  entry.word.store(updates * 2 + 1);
}

void ShardStore::reset(const std::vector<uint32_t>& slices,
                       std::shared_ptr<const Beginning> beginning) {
  beginning_ = std::move(beginning);
  for (uint64_t step = 0; step < 2; ++step)
    for (uint32_t round = 0; round < max_rounds; ++round)
      scalars(step, round).word.store(0);
  for (const auto& slice : job_.plan.slices)
    if (record(slice.id).word.load() != absent)
      drop(slice.id);
  for (auto slice : slices)
    initialise(slice);
}

ShardStore::Target ShardStore::replace(uint32_t slice, uint64_t version) {
  record(slice).word.store(absent);
  take_slice(slice);
  if (job_.plan.slices[slice].sparse()) {
    if (!tables_[slice])
      open_table(slice, 0);
    tables_[slice]->clear();
  }
  return bank(slice, version + from_);
}

void ShardStore::install(uint32_t slice, uint64_t version,
                         const LeaseSet& applied) {
  const auto count = version + from_;
  write_leases(record(slice).leases[count % 2], applied);
  record(slice).word.store(count * 2 + 1);
}

void ShardStore::drop(uint32_t slice) {
  record(slice).word.store(absent);
  if (tables_[slice])
    tables_[slice]->clear();
  tables_[slice].reset();
  madvise(memory_ + offsets_[slice], slice_bytes(slice), MADV_REMOVE);
}

uint64_t ShardStore::lineage(uint32_t slice) const {
  return record(slice).lineage.load();
}

void ShardStore::set_lineage(uint32_t slice, uint64_t epoch) {
  record(slice).lineage.store(epoch);
}

uint64_t ShardStore::updates(uint32_t slice) const {
  return record(slice).word.load() / 2;
}

uint64_t ShardStore::newest(uint32_t slice) const {
  const auto count = updates(slice);
  return count > from_ ? count - from_ : 0;
}

uint64_t ShardStore::oldest(uint32_t slice) const {
  const auto word = record(slice).word.load();
  const auto count = word % 2 != 0 || word == 0 ? word / 2 : word / 2 - 1;
  return count > from_ ? count - from_ : 0;
}

const float* ShardStore::values(uint32_t slice, uint64_t version) const {
  return bank(slice, version + from_).values;
}

const float* ShardStore::state(uint32_t slice, uint64_t version) const {
  return bank(slice, version + from_).state;
}

ShardStore::Target ShardStore::begin(uint32_t slice) {
  const auto next = updates(slice) + 1;
  record(slice).word.store((next - 1) * 2 + 1);
  return bank(slice, next);
}

void ShardStore::commit(uint32_t slice) {
  record(slice).word.store((updates(slice) + 1) * 2);
}

void ShardStore::commit(uint32_t slice, const LeaseSet& applied) {
  write_leases(record(slice).leases[(updates(slice) + 1) % 2], applied);
  commit(slice);
}

LeaseSet ShardStore::leases(uint32_t slice) const {
  const auto& entry = record(slice);
  const auto& leases = entry.leases[updates(slice) % 2];
  return {leases.floor,
          std::vector<uint64_t>(leases.above, leases.above + leases.count)};
}

} // namespace troupe
