#pragma once

#include "strategies/slicing.hpp"

#include <cstdint>
#include <vector>

namespace troupe {

/// A run of a flat gradient that is reduced at once.
struct Bucket {
  std::vector<uint32_t> variables; ///< in the order their gradients are final
  uint64_t elements = 0;
};

/// Fuses gradients into buckets in the order in which the backward pass
/// finishes them: a bucket is closed by the variable that brings it to
/// `bucket_bytes` or more, so that none is split and reduction can begin while
/// the pass goes on. Every variable lies in exactly one bucket.
/// Source: Li et al., VLDB 2020 (PyTorch DDP's gradient bucketing).
std::vector<Bucket> fuse(const std::vector<Variable>& variables,
                         const std::vector<uint32_t>& gradient_order,
                         uint64_t bucket_bytes);

/// A number that two members share only if their buckets hold the same
/// variables (name, shape) in the same order (PROTOCOL 20). FNV-1a.
uint64_t layout_hash(const std::vector<Variable>& variables,
                     const std::vector<Bucket>& buckets);

} // namespace troupe
