#pragma once

#include "kernels/table/id_pages.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace troupe {

/// Rows of a table on their way: ids and values in one run of float32 words,
/// so that they travel, are held and are forwarded as any tensor is.
///
///   magic | width | bytes of ids | 0 | ids | zeros to 64 bytes | values
///
/// What asks for rows holds no values. Shapes: values [ids, width], in order of
/// the ids.

/// Words of a payload.
size_t payload_words(size_t id_bytes, uint64_t rows, size_t width);

/// Writes all but the values into `words` and returns where those go.
/// Shapes: words [payload_words()].
float* write_payload(std::span<const std::byte> ids, size_t width,
                     std::span<float> words);

/// A payload taken apart; `values` points into it.
struct RowPayload {
  IdPages pages;
  size_t width = 0;
  uint64_t rows = 0;
  const float* values = nullptr;
};

/// Errors: nullopt where it is none, or of another width; a payload without
/// words has no rows.
std::optional<RowPayload> read_payload(std::span<const float> words,
                                       size_t width);

/// The ids of a payload that asks for rows of that width.
/// Errors: nullopt where it is none, or asks for more than `most_ids`.
std::optional<IdPages> read_wanted(std::span<const float> words, size_t width,
                                   uint64_t most_ids);

/// Writes the sum of two nodes' rows, of the ids that either has: the left one
/// plus the right one, or the only one (PROTOCOL 4).
/// Shapes: out [ids of either, width].
void sum_payloads(const RowPayload& left, const RowPayload& right,
                  std::span<const IdPage> united, float* out);

} // namespace troupe
