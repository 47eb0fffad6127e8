#include "strategies/slicing.hpp"

#include "strategies/require.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <numeric>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

namespace troupe {

namespace {

constexpr uint64_t element_bytes = sizeof(float);
constexpr uint64_t max_slice_blocks = max_slice_bytes / element_bytes
                                      / block_elements;

/// MinSize without a limit of pieces.
constexpr uint32_t any_number = std::numeric_limits<uint32_t>::max();

constexpr uint64_t ceil_div(uint64_t a, uint64_t b) {
  return a / b + (a % b != 0);
}

constexpr uint64_t blocks_of(uint64_t elements) {
  return ceil_div(elements, block_elements);
}

// How many pieces each partitioner wants of a variable of `size` elements,
// given that pieces are even in blocks and that the last one, which alone may
// end inside a block, is among the largest (see cut_variable).

uint64_t wanted(const FixedShards& x, uint64_t) {
  return x.shards;
}

uint64_t wanted(const MinSize& x, uint64_t size) {
  auto least = std::max<uint64_t>(1, ceil_div(x.min_shard_bytes, //
                                              element_bytes));
  if (size < least)
    return 1;
  // All but the last piece hold whole blocks.
  auto fit = 1 + (size - least) / block_elements / blocks_of(least);
  return std::min<uint64_t>(x.max_shards, fit);
}

uint64_t wanted(const MaxSize& x, uint64_t size) {
  // Nothing is cut below a block.
  auto most = std::max(block_elements, x.max_shard_bytes / element_bytes);
  auto whole = most / block_elements * block_elements;
  auto pieces = size <= most ? 1 : 1 + ceil_div(size - most, whole);
  return x.max_shards == 0 ? pieces : std::min<uint64_t>(x.max_shards, pieces);
}

void cut_variable(uint32_t variable, uint64_t size, uint64_t pieces,
                  std::vector<Slice>& out) {
  auto blocks = blocks_of(size);
  pieces = std::clamp(pieces, ceil_div(blocks, max_slice_blocks), blocks);
  // Not p * blocks / pieces, which overflows for absurd shapes.
  auto even = blocks / pieces;
  auto rest = blocks % pieces;
  auto start = [&](uint64_t p) {
    return std::min(size, (p * even + p * rest / pieces) * block_elements);
  };
  for (uint64_t p = 0; p < pieces; ++p) {
    auto id = static_cast<uint32_t>(out.size());
    out.push_back({id, variable, start(p), start(p + 1) - start(p)});
  }
}

/// Takes ":N" off the front of `text`; false unless N is above zero and fits.
template <class Number>
bool take_number(std::string_view& text, Number& out) {
  if (!text.starts_with(':'))
    return false;
  auto end = text.data() + text.size();
  auto [last, error] = std::from_chars(text.data() + 1, end, out);
  if (error != std::errc{} || out == 0)
    return false;
  text.remove_prefix(static_cast<size_t>(last - text.data()));
  return true;
}

} // namespace

uint64_t Variable::size() const {
  uint64_t result = 1;
  for (auto extent : shape) {
    strategies::require(extent == 0
                          || result <= std::numeric_limits<uint64_t>::max()
                                         / element_bytes / extent,
                        "a variable's size in bytes exceeds 64 bits");
    result *= extent;
  }
  return result;
}

std::vector<Slice> cut(const std::vector<Variable>& variables,
                       const Partitioner& partitioner) {
  std::vector<Slice> out;
  for (uint32_t i = 0; i < variables.size(); ++i) {
    auto size = variables[i].size();
    if (size == 0)
      continue;
    if (const auto parts = variables[i].partitions; parts > 0) {
      for (uint32_t p = 0; p < parts; ++p)
        out.push_back(
          {static_cast<uint32_t>(out.size()), i, 0, 0, p, parts, size / parts});
      continue;
    }
    auto pieces = std::visit([&](const auto& x) { return wanted(x, size); },
                             partitioner);
    cut_variable(i, size, pieces, out);
  }
  return out;
}

uint32_t table_partitions(const Variable& table, uint64_t rows_of_step) {
  constexpr uint64_t usual = 16;
  constexpr uint64_t most = 4096;
  constexpr uint64_t id_bytes = 9; // of an id that lies alone
  const auto rows = std::max<uint64_t>(1, table.shape.front());
  const auto row_bytes = table.size() / rows * element_bytes;
  const auto by_size = std::min(usual,
                                ceil_div(rows * row_bytes, max_slice_bytes));
  const auto by_step = ceil_div(
    std::min(rows, rows_of_step) * (row_bytes + id_bytes), max_slice_bytes);
  return static_cast<uint32_t>(
    std::clamp<uint64_t>(std::max(by_size, by_step), 1, most));
}

namespace {

uint64_t load_of(const Slice& slice) {
  return slice.sparse() ? slice.expected : slice.count;
}

} // namespace

std::vector<uint32_t> assign(const std::vector<Slice>& slices,
                             uint32_t owners) {
  strategies::require(owners > 0 || slices.empty(), "slices need an owner");
  std::vector<size_t> order(slices.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) {
    return load_of(slices[a]) > load_of(slices[b]);
  });
  std::set<std::pair<uint64_t, uint32_t>> loads; // (elements, owner)
  for (uint32_t owner = 0; owner < owners; ++owner)
    loads.emplace(0, owner);
  std::vector<uint32_t> out(slices.size());
  for (auto i : order) {
    auto least = loads.extract(loads.begin());
    out[i] = least.value().second;
    least.value().first += load_of(slices[i]);
    loads.insert(std::move(least));
  }
  return out;
}

std::string to_string(const Partitioner& partitioner) {
  struct Printer {
    std::string operator()(const FixedShards& x) const {
      return "fixed:" + std::to_string(x.shards);
    }
    std::string operator()(const MinSize& x) const {
      auto text = "min_size:" + std::to_string(x.min_shard_bytes);
      return x.max_shards == any_number
               ? text
               : text + ':' + std::to_string(x.max_shards);
    }
    std::string operator()(const MaxSize& x) const {
      auto text = "max_size:" + std::to_string(x.max_shard_bytes);
      return x.max_shards == 0 ? text
                               : text + ':' + std::to_string(x.max_shards);
    }
  };
  return std::visit(Printer{}, partitioner);
}

bool parse(const std::string& text, Partitioner& partitioner) {
  auto colon = std::min(text.find(':'), text.size());
  auto kind = std::string_view{text}.substr(0, colon);
  auto rest = std::string_view{text}.substr(colon);
  uint64_t bytes = 0;
  uint32_t pieces = 0;
  if (kind == "fixed") {
    if (!take_number(rest, pieces) || !rest.empty())
      return false;
    partitioner = FixedShards{pieces};
    return true;
  }
  if (!take_number(rest, bytes))
    return false;
  auto limited = !rest.empty();
  if (limited && (!take_number(rest, pieces) || !rest.empty()))
    return false;
  if (kind == "min_size")
    partitioner = MinSize{bytes, limited ? pieces : any_number};
  else if (kind == "max_size")
    partitioner = MaxSize{bytes, pieces};
  else
    return false;
  return true;
}

} // namespace troupe
