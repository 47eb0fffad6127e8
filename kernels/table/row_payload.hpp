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
///   magic | width | bytes of ids | kind | name (4) | ids | zeros to 64 bytes
///   | values
///
/// What asks for rows holds no values. Ids that the receiver has had under
/// their name need not be sent again: the name stands for them. Shapes: values
/// [ids, width], in order of the ids.

/// Names a list of ids by what it holds; zero: no name. Source: the cached key
/// lists of Li et al., "Scaling Distributed Machine Learning with the Parameter
/// Server", OSDI 2014.
struct ListName {
  uint64_t low = 0;
  uint64_t high = 0;
  explicit operator bool() const { return (low | high) != 0; }
  bool operator==(const ListName&) const = default;
};
/// The name of ids as encode_pages() gives them: 128 bits of a hash.
ListName name_of(std::span<const std::byte> ids);

/// Words of a payload.
size_t payload_words(size_t id_bytes, uint64_t rows, size_t width);

/// Writes all but the values into `words` and returns where those go.
/// Shapes: words [payload_words()].
float* write_payload(std::span<const std::byte> ids, size_t width,
                     std::span<float> words, ListName name = {});
/// The same without the ids. Shapes: words [payload_words(0, …)].
float* write_named(ListName name, size_t width, std::span<float> words);

/// What a payload, or a wish, says of its ids.
struct PayloadIds {
  ListName name;
  bool here = true; ///< false: there is only the name
};
/// Errors: nullopt where it is no payload, or of another width.
std::optional<PayloadIds> ids_said(std::span<const float> words, size_t width);

/// A payload taken apart; `values` points into it.
struct RowPayload {
  IdPages pages;
  size_t width = 0;
  uint64_t rows = 0;
  const float* values = nullptr;
};

/// Errors: nullopt where it is none, of another width, or without its ids; a
/// payload without words has no rows.
std::optional<RowPayload> read_payload(std::span<const float> words,
                                       size_t width);

/// The values of a payload of that many rows. Errors: null where it is none.
const float* values_in(std::span<const float> words, size_t width,
                       uint64_t rows);

/// The ids of a payload that asks for rows of that width.
/// Errors: nullopt where it is none, or asks for more than `max_ids`.
std::optional<IdPages> read_wanted(std::span<const float> words, size_t width,
                                   uint64_t max_ids);

/// Rows of one node or of several, in order of the ids.
struct RowsOf {
  std::span<const IdPage> pages;
  const float* values = nullptr;
};

/// Writes the sum of two nodes' rows, of the ids that either has: the left one
/// plus the right one, or the only one (PROTOCOL 4).
/// Shapes: out [ids of either, width].
void sum_rows(const RowsOf& left, const RowsOf& right, size_t width,
              std::span<const IdPage> united, float* out);

} // namespace troupe
