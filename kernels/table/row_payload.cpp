#include "kernels/table/row_payload.hpp"

#include "kernels/base/require.hpp"
#include "kernels/cpu/vector_loops.hpp"
#include "kernels/numbers/random.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace troupe {

namespace {

constexpr uint32_t magic = 0x73776f52; // "Rows"
constexpr size_t unit = 16;            // words: values begin at 64 bytes

using Head = std::array<uint32_t, 8>;
constexpr uint32_t with_ids = 0;
constexpr uint32_t named_only = 1;
constexpr size_t head_words = sizeof(Head) / sizeof(float);

size_t words_before_values(size_t id_bytes) {
  const auto words = head_words
                     + (id_bytes + sizeof(float) - 1) / sizeof(float);
  return (words + unit - 1) / unit * unit;
}

std::optional<Head> head_of(std::span<const float> words, size_t width) {
  Head head{};
  if (words.size() < head_words)
    return std::nullopt;
  std::memcpy(head.data(), words.data(), sizeof(head));
  if (head[0] != magic || head[1] != width || head[3] > named_only
      || words.size() < words_before_values(head[2]))
    return std::nullopt;
  return head;
}

/// The ids of a payload that has them.
std::optional<std::span<const std::byte>> ids_in(std::span<const float> words,
                                                 size_t width) {
  const auto head = head_of(words, width);
  if (!head || (*head)[3] != with_ids)
    return std::nullopt;
  const auto* ids =
    reinterpret_cast<const std::byte*>(words.data() + head_words);
  return std::span{ids, (*head)[2]};
}

float* write_head(const Head& head, std::span<const std::byte> ids,
                  std::span<float> words) {
  const auto before = words_before_values(ids.size());
  kernels::require(words.size() >= before, "a payload without room");
  std::fill_n(words.data(), before, 0.0f);
  std::memcpy(words.data(), head.data(), sizeof(head));
  if (!ids.empty())
    std::memcpy(words.data() + head_words, ids.data(), ids.size());
  return words.data() + before;
}

Head head_for(uint32_t kind, size_t id_bytes, size_t width, ListName name) {
  Head head{magic, static_cast<uint32_t>(width),
            static_cast<uint32_t>(id_bytes), kind};
  std::memcpy(head.data() + 4, &name, sizeof(name));
  return head;
}

/// Rows of one page, taken off the front as pages go by.
struct Cursor {
  const RowsOf& of;
  size_t width;
  size_t page = 0;
  const float* row;

  Cursor(const RowsOf& of, size_t width)
    : of(of), width(width), row(of.values) {}

  /// The bits of that page, and where its rows are.
  uint64_t take(uint64_t number, const float*& rows) {
    rows = row;
    if (page == of.pages.size() || of.pages[page].page != number)
      return 0;
    row += of.pages[page].count() * width;
    return of.pages[page++].bits;
  }
};

} // namespace

size_t payload_words(size_t id_bytes, uint64_t rows, size_t width) {
  return words_before_values(id_bytes) + rows * width;
}

ListName name_of(std::span<const std::byte> ids) {
  ListName name{ids.size() + 1, ~ids.size()};
  for (size_t at = 0; at < ids.size(); at += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, ids.data() + at,
                std::min(sizeof(word), ids.size() - at));
    name.low = kernels::mix(name.low ^ word);
    name.high = kernels::mix(name.high + word * 0x9e3779b97f4a7c15);
  }
  return name;
}

float* write_payload(std::span<const std::byte> ids, size_t width,
                     std::span<float> words, ListName name) {
  return write_head(head_for(with_ids, ids.size(), width, name), ids, words);
}

float* write_named(ListName name, size_t width, std::span<float> words) {
  return write_head(head_for(named_only, 0, width, name), {}, words);
}

std::optional<PayloadIds> ids_said(std::span<const float> words, size_t width) {
  const auto head = head_of(words, width);
  if (!head)
    return std::nullopt;
  PayloadIds said{{}, (*head)[3] == with_ids};
  std::memcpy(static_cast<void*>(&said.name), head->data() + 4,
              sizeof(said.name));
  return said;
}

const float* values_in(std::span<const float> words, size_t width,
                       uint64_t rows) {
  const auto head = head_of(words, width);
  if (!head)
    return nullptr;
  const auto before = words_before_values((*head)[2]);
  return words.size() == before + rows * width ? words.data() + before
                                               : nullptr;
}

std::optional<RowPayload> read_payload(std::span<const float> words,
                                       size_t width) {
  RowPayload out;
  out.width = width;
  if (words.empty())
    return out;
  auto ids = ids_in(words, width);
  auto pages = ids ? decode_pages(*ids, words.size()) : std::nullopt;
  if (!pages)
    return std::nullopt;
  const auto before = words_before_values(ids->size());
  out.pages = std::move(*pages);
  out.rows = count_ids(out.pages);
  out.values = words.data() + before;
  if (words.size() - before != out.rows * width)
    return std::nullopt;
  return out;
}

std::optional<IdPages> read_wanted(std::span<const float> words, size_t width,
                                   uint64_t max_ids) {
  if (words.empty())
    return IdPages{};
  auto ids = ids_in(words, width);
  if (!ids || words.size() != words_before_values(ids->size()))
    return std::nullopt;
  return decode_pages(*ids, max_ids);
}

void sum_rows(const RowsOf& left, const RowsOf& right, size_t width,
              std::span<const IdPage> united, float* out) {
  Cursor a{left, width};
  Cursor b{right, width};
  for (const auto& [page, bits] : united) {
    const float* x = nullptr;
    const float* y = nullptr;
    const auto has_x = a.take(page, x);
    const auto has_y = b.take(page, y);
    if (has_x == has_y) {
      const auto count = static_cast<size_t>(std::popcount(bits)) * width;
      add(x, y, out, count);
      out += count;
      continue;
    }
    for (auto rest = bits; rest != 0; rest &= rest - 1, out += width) {
      const auto bit = rest & -rest;
      const bool in_x = (has_x & bit) != 0;
      const bool in_y = (has_y & bit) != 0;
      if (in_x && in_y)
        add(x, y, out, width);
      else
        std::copy_n(in_x ? x : y, width, out);
      x += in_x ? width : 0;
      y += in_y ? width : 0;
    }
  }
}

} // namespace troupe
