#include "kernels/table/id_pages.hpp"

#include "kernels/base/require.hpp"
#include "kernels/numbers/random.hpp"

#include <cstring>
#include <limits>

namespace troupe {

namespace {

constexpr uint64_t all_ids = ~uint64_t{0};
constexpr uint64_t max_pages = std::numeric_limits<uint64_t>::max() / page_ids;

// What follows the distance to the page before.
constexpr uint8_t bitmap_tag = 0;    // eight bytes
constexpr uint8_t max_positions = 7; // 1 to 7: so many positions, a byte each
constexpr uint8_t full_tag = 255;    // how many pages in a row are full

void put_number(std::vector<std::byte>& out, uint64_t value) {
  for (; value >= 128; value >>= 7)
    out.push_back(static_cast<std::byte>(value | 128));
  out.push_back(static_cast<std::byte>(value));
}

/// Takes bytes off the front; fails once there are too few.
class Reader {
public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  bool done() const { return bytes_.empty(); }

  std::optional<uint64_t> number() {
    uint64_t value = 0;
    for (uint32_t shift = 0; shift < 64; shift += 7) {
      const auto next = byte();
      if (!next)
        return std::nullopt;
      value |= uint64_t{*next & 127u} << shift;
      if (*next < 128)
        return value;
    }
    return std::nullopt;
  }

  std::optional<uint8_t> byte() {
    if (bytes_.empty())
      return std::nullopt;
    const auto value = static_cast<uint8_t>(bytes_.front());
    bytes_ = bytes_.subspan(1);
    return value;
  }

  std::optional<uint64_t> word() {
    uint64_t value = 0;
    if (bytes_.size() < sizeof(value))
      return std::nullopt;
    std::memcpy(&value, bytes_.data(), sizeof(value));
    bytes_ = bytes_.subspan(sizeof(value));
    return value;
  }

private:
  std::span<const std::byte> bytes_;
};

std::optional<uint64_t> read_positions(Reader& reader, uint8_t count) {
  uint64_t bits = 0;
  for (uint8_t i = 0; i < count; ++i) {
    const auto position = reader.byte();
    if (!position || *position >= page_ids || (bits >> *position) != 0)
      return std::nullopt;
    bits |= uint64_t{1} << *position;
  }
  return bits;
}

template <class Combine>
IdPages
merged(std::span<const IdPage> a, std::span<const IdPage> b, Combine combine) {
  IdPages out;
  size_t i = 0;
  size_t k = 0;
  while (i < a.size() || k < b.size()) {
    const bool from_a = k == b.size()
                        || (i < a.size() && a[i].page <= b[k].page);
    const bool from_b = i == a.size()
                        || (k < b.size() && b[k].page <= a[i].page);
    const auto page = from_a ? a[i].page : b[k].page;
    const auto bits = combine(from_a ? a[i].bits : 0, from_b ? b[k].bits : 0);
    if (bits != 0)
      out.push_back({page, bits});
    i += from_a ? 1 : 0;
    k += from_b ? 1 : 0;
  }
  return out;
}

} // namespace

IdPages pages_of(std::span<const uint64_t> ids) {
  IdPages pages;
  uint64_t last = 0;
  for (auto id : ids) {
    kernels::require(id >= last, "ids that do not ascend");
    last = id;
    if (pages.empty() || pages.back().page != id / page_ids)
      pages.push_back({id / page_ids, 0});
    pages.back().bits |= uint64_t{1} << (id % page_ids);
  }
  return pages;
}

uint64_t count_ids(std::span<const IdPage> pages) {
  uint64_t count = 0;
  for (const auto& page : pages)
    count += page.count();
  return count;
}

IdPages united(std::span<const IdPage> a, std::span<const IdPage> b) {
  return merged(a, b, [](uint64_t x, uint64_t y) { return x | y; });
}

IdPages without(std::span<const IdPage> a, std::span<const IdPage> b) {
  return merged(a, b, [](uint64_t x, uint64_t y) { return x & ~y; });
}

uint32_t partition_of(uint64_t page, uint32_t partitions) {
  constexpr uint64_t stream = 0x7061727469746e73;
  const auto hash = kernels::mix(page ^ stream) >> 32;
  return static_cast<uint32_t>(hash * partitions >> 32);
}

std::vector<std::byte> encode_pages(std::span<const IdPage> pages) {
  std::vector<std::byte> out;
  out.reserve(pages.size() * 4);
  uint64_t next = 0; // the least number that the page can have
  for (size_t i = 0; i < pages.size();) {
    put_number(out, pages[i].page - next);
    const auto bits = pages[i].bits;
    if (bits == all_ids) {
      auto end = i + 1;
      while (end < pages.size() && pages[end].bits == all_ids
             && pages[end].page == pages[end - 1].page + 1)
        ++end;
      out.push_back(static_cast<std::byte>(full_tag));
      put_number(out, end - i);
      i = end;
    } else if (const auto count = pages[i].count(); count <= max_positions) {
      out.push_back(static_cast<std::byte>(count));
      for (auto left = bits; left != 0; left &= left - 1)
        out.push_back(static_cast<std::byte>(std::countr_zero(left)));
      ++i;
    } else {
      out.push_back(static_cast<std::byte>(bitmap_tag));
      const auto at = out.size();
      out.resize(at + sizeof(bits));
      std::memcpy(out.data() + at, &bits, sizeof(bits));
      ++i;
    }
    next = pages[i - 1].page + 1;
  }
  return out;
}

std::optional<IdPages> decode_pages(std::span<const std::byte> bytes,
                                    uint64_t max_ids) {
  IdPages pages;
  Reader reader{bytes};
  uint64_t next = 0;
  uint64_t ids = 0;
  while (!reader.done()) {
    const auto gap = reader.number();
    const auto tag = reader.byte();
    if (!gap || !tag || *gap > max_pages - next)
      return std::nullopt;
    const auto page = next + *gap;
    std::optional<uint64_t> bits;
    uint64_t in_a_row = 1;
    if (*tag == full_tag) {
      bits = all_ids;
      in_a_row = reader.number().value_or(0);
    } else if (*tag == bitmap_tag) {
      bits = reader.word();
    } else if (*tag <= max_positions) {
      bits = read_positions(reader, *tag);
    }
    if (!bits || *bits == 0 || in_a_row == 0 || in_a_row > max_ids
        || in_a_row - 1 > max_pages - page)
      return std::nullopt;
    ids += in_a_row * static_cast<uint64_t>(std::popcount(*bits));
    if (ids > max_ids)
      return std::nullopt;
    for (uint64_t k = 0; k < in_a_row; ++k)
      pages.push_back({page + k, *bits});
    next = page + in_a_row;
  }
  return pages;
}

} // namespace troupe
