#pragma once

#include "kernels/data/dataset.hpp"

namespace troupe {

// criteo:FILE, plain or .gz: the label 0 or 1, 13 whole numbers, 26 categories,
// separated by tabs (as Criteo publishes it) or commas; a header is recognised.
// Keys: buckets=N (1000) a field; scale=standard.
// A sample: features log(1 + x), 0 for missing or below 0; ids
// field * N + 1 + hash(category) mod (N - 1), field * N for a missing one. The
// hash knows no samples: FNV-1a of 64 bits, its bits mixed. Label: binary.

constexpr uint32_t click_numbers = 13;
constexpr uint32_t click_categories = 26;

uint64_t click_buckets(const DataSpec& spec);
void check_criteo(const DataSpec& spec);

/// Errors: InputError with file, line and column.
Dataset read_criteo(const DataSpec& spec, const ReadLimits& limits);

} // namespace troupe
