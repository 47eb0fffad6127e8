#include "actors/coordinator/remains.hpp"

#include "actors/shard/shard_store.hpp"
#include "actors/shard/snapshots.hpp"
#include "actors/sockets/descriptor.hpp"

#include <fcntl.h>

#include <algorithm>
#include <exception>
#include <memory>

namespace troupe {
namespace {

/// One of those that are there, with the file that it lies in.
struct Left {
  Descriptor file;
  std::unique_ptr<ShardStore> store;
};

std::vector<Left> open_states(const Job& job, uint64_t job_id,
                              const std::vector<std::string>& states) {
  std::vector<Left> out;
  for (const auto& path : states) {
    Left one{Descriptor{::open(path.c_str(), O_RDWR | O_CLOEXEC)}, nullptr};
    if (!one.file || !ShardStore::is_of(one.file.get(), job_id))
      continue;
    try {
      one.store = std::make_unique<ShardStore>(job, std::vector<uint32_t>{},
                                               job_id, one.file.get());
    } catch (const std::exception&) { // it cannot be mapped
      continue;
    }
    out.push_back(std::move(one));
  }
  return out;
}

const ShardStore* holder_of(const std::vector<Left>& all, uint32_t slice,
                            uint64_t version) {
  for (const auto& one : all)
    if (one.store->holds(slice) && one.store->oldest(slice) <= version
        && version <= one.store->newest(slice))
      return one.store.get();
  return nullptr;
}

} // namespace

std::optional<Snapshot> what_remains(const Job& job, uint64_t job_id,
                                     const std::vector<std::string>& states) {
  const auto left = open_states(job, job_id, states);
  const auto slices = static_cast<uint32_t>(job.plan.slices.size());
  // No version that is whole is newer than the newest of any slice.
  auto version = ~uint64_t{0};
  for (uint32_t slice = 0; slice < slices; ++slice) {
    std::optional<uint64_t> newest;
    for (const auto& one : left)
      if (one.store->holds(slice))
        newest = std::max(newest.value_or(0), one.store->newest(slice));
    if (!newest)
      return std::nullopt;
    version = std::min(version, *newest);
  }
  Snapshot out;
  out.version = version;
  out.rows.resize(slices);
  for (uint32_t slice = 0; slice < slices; ++slice) {
    const auto* store = holder_of(left, slice, version);
    if (store == nullptr)
      return std::nullopt;
    out.slices.push_back(copy_of(job, job_id, *store, slice, version,
                                 {version + store->count_from(),
                                  version * job.options.virtual_ranks,
                                  {}}));
  }
  return out;
}

} // namespace troupe
