#pragma once

#include "actors/stores/block_cache.hpp"
#include "actors/stores/fetch_pool.hpp"
#include "actors/stores/fetcher.hpp"
#include "actors/stores/store_options.hpp"
#include "kernels/files/file_store.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// What was done so far.
struct StoreCounts {
  uint64_t requests = 0;
  uint64_t bytes = 0;
  uint64_t tries_again = 0;
  uint64_t cache_hits = 0;
  uint64_t cache_misses = 0;
  uint64_t cache_damaged = 0;
  uint64_t wait_us = 0; ///< of all threads, for bytes that are not here

  StoreCounts& operator+=(const StoreCounts& more);
  StoreCounts& operator-=(const StoreCounts& before);
};

/// Objects at http://, https:// and s3:// URLs, with what is kept of them on
/// this machine. An object is what it was when it was first looked at: one that
/// changes is refused.
class RemoteStore : public FileStore {
public:
  /// Errors: those of BlockCache; what the environment says of S3 is read when
  /// it is needed.
  RemoteStore(const StoreOptions& options, Environment environment);
  ~RemoteStore() override;

  std::shared_ptr<const OpenedFile> open(const std::string& url) const override;
  std::vector<std::string> list(const std::string& pattern) const override;

  StoreCounts counts() const;
  /// What all stores of this process have done, those that are gone included.
  static StoreCounts process_counts();

private:
  class Object;
  struct Inside; ///< what its objects share, and outlives none of them

  std::shared_ptr<Inside> inside_;
};

/// The same where all is as a process has it.
std::shared_ptr<RemoteStore> open_store(const StoreOptions& options);

} // namespace troupe
