#pragma once

#include "strategies/fetch_tries.hpp"

#include <cstdint>
#include <string>

namespace troupe {

/// How objects elsewhere are read.
struct StoreOptions {
  FetchTries::Options tries;
  /// Where blocks are kept on this machine; empty: nowhere.
  std::string cache_dir;
  uint64_t cache_bytes = 0;
  uint32_t fetches = 16;                     ///< at once
  uint64_t ahead_bytes = uint64_t{64} << 20; ///< fetched before they are read
};

/// "DIR:SIZE", SIZE with K, M, G or T for powers of 1024.
/// Errors: UsageError "expected …", without the text.
void parse_data_cache(const std::string& text, StoreOptions& out);

} // namespace troupe
