#include "strategies/slicing.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <numeric>
#include <set>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(slicing)

namespace {

constexpr uint64_t max_elements = max_slice_bytes / sizeof(float);
constexpr uint64_t block = block_elements;

Variable flat(uint64_t size) {
  return {"w", {size}};
}

/// Returns the sizes, in elements, of the slices of one variable.
std::vector<uint64_t> sizes(uint64_t size, const Partitioner& partitioner) {
  std::vector<uint64_t> out;
  for (const auto& slice : cut({flat(size)}, partitioner))
    out.push_back(slice.count);
  return out;
}

const std::vector<uint64_t> some_sizes{
  1,
  2,
  block - 1,
  block,
  block + 1,
  3 * block + 7,
  max_elements - 1,
  max_elements,
  max_elements + 1,
  3 * max_elements + block + 1,
  784 * 512,
  1'000'003,
};

const std::vector<Partitioner> some_partitioners{
  FixedShards{0},
  FixedShards{1},
  FixedShards{2},
  FixedShards{7},
  MinSize{},
  MinSize{0, 5},
  MinSize{1, 3},
  MinSize{40'000, 8},
  MinSize{256 << 10, 64},
  MaxSize{},
  MaxSize{0, 0},
  MaxSize{1, 0},
  MaxSize{40'000, 0},
  MaxSize{40'000, 3},
  MaxSize{10 << 20, 0},
  MaxSize{max_slice_bytes - 1, 0},
};

} // namespace

BOOST_AUTO_TEST_CASE(a_variable_has_the_product_of_its_shape) {
  BOOST_TEST(flat(7).size() == 7u);
  BOOST_TEST((Variable{"w", {3, 4, 5}}).size() == 60u);
  BOOST_TEST((Variable{"scalar", {}}).size() == 1u);
  BOOST_TEST((Variable{"none", {3, 0}}).size() == 0u);
}

BOOST_AUTO_TEST_CASE(every_element_lies_in_one_bounded_slice_of_whole_blocks) {
  // PROTOCOL 5 and 7.
  std::vector<Variable> variables;
  for (auto size : some_sizes)
    variables.push_back(flat(size));
  for (const auto& partitioner : some_partitioners) {
    BOOST_TEST_CONTEXT(to_string(partitioner)) {
      auto slices = cut(variables, partitioner);
      size_t at = 0;
      for (uint32_t i = 0; i < variables.size(); ++i) {
        uint64_t next = 0;
        for (; at < slices.size() && slices[at].variable == i; ++at) {
          BOOST_TEST(slices[at].id == at);
          BOOST_TEST(slices[at].offset == next);
          BOOST_TEST(slices[at].offset % block == 0u);
          BOOST_TEST(slices[at].count > 0u);
          BOOST_TEST(slices[at].count <= max_elements);
          next += slices[at].count;
        }
        BOOST_TEST(next == some_sizes[i]);
      }
      BOOST_TEST(at == slices.size());
    }
  }
}

BOOST_AUTO_TEST_CASE(a_variable_without_elements_has_no_slice) {
  auto slices = cut({flat(0), flat(5)}, MaxSize{});
  BOOST_TEST(slices.size() == 1u);
  BOOST_TEST((slices.front() == Slice{0, 1, 0, 5}));
  BOOST_TEST(cut({}, MaxSize{}).empty());
}

BOOST_AUTO_TEST_CASE(fixed_shards_cuts_even_pieces_fewer_of_a_small_variable) {
  using Sizes = std::vector<uint64_t>;
  BOOST_TEST((sizes(4 * block, FixedShards{2}) == Sizes{2 * block, 2 * block}));
  BOOST_TEST((sizes(3 * block, FixedShards{2}) == Sizes{block, 2 * block}));
  BOOST_TEST((sizes(2 * block, FixedShards{5}) == Sizes{block, block}));
  BOOST_TEST((sizes(100, FixedShards{5}) == Sizes{100}));
}

BOOST_AUTO_TEST_CASE(min_size_cuts_as_many_pieces_as_are_large_enough) {
  for (uint64_t least :
       {uint64_t{1}, block, block + 1, 3 * block / 2, 5 * block, 9 * block + 5})
    for (uint64_t size = 1; size < 40 * block; size += 1021) {
      auto got = sizes(size, MinSize{least * sizeof(float), 1000});
      if (got.size() > 1)
        BOOST_TEST(*std::ranges::min_element(got) >= least);
      // All but the last are whole blocks: no way to cut one piece more.
      auto whole = (least + block - 1) / block * block;
      BOOST_TEST(got.size() * whole + least > size);
    }
}

BOOST_AUTO_TEST_CASE(min_size_keeps_its_limit_of_pieces) {
  BOOST_TEST(sizes(10 * block, MinSize{4, 3}).size() == 3u);
  BOOST_TEST(sizes(10 * block, MinSize{}).size() == 1u);
}

BOOST_AUTO_TEST_CASE(max_size_cuts_the_fewest_pieces_that_are_small_enough) {
  for (uint64_t most :
       {block, block + 1, 3 * block / 2, 5 * block, 9 * block + 5})
    for (uint64_t size = 1; size < 40 * block; size += 1021) {
      auto got = sizes(size, MaxSize{most * sizeof(float), 0});
      BOOST_TEST(*std::ranges::max_element(got) <= most);
      // All but the last are whole blocks: one piece fewer holds less.
      auto whole = most / block * block;
      if (got.size() > 1)
        BOOST_TEST((got.size() - 2) * whole + most < size);
    }
}

BOOST_AUTO_TEST_CASE(max_size_keeps_its_limit_of_pieces_up_to_1_mib) {
  BOOST_TEST(sizes(10 * block, MaxSize{4 * block, 3}).size() == 3u);
  BOOST_TEST(sizes(5 * max_elements, MaxSize{4 * block, 3}).size() == 5u);
}

BOOST_AUTO_TEST_CASE(the_largest_slice_is_exactly_1_mib) {
  BOOST_TEST(sizes(max_elements, MaxSize{}).size() == 1u);
  BOOST_TEST(sizes(max_elements + 1, MaxSize{}).size() == 2u);
  BOOST_TEST(sizes(max_elements + 1, FixedShards{1}).size() == 2u);
}

BOOST_AUTO_TEST_CASE(owners_differ_by_at_most_the_largest_slice) {
  std::vector<Variable> variables;
  for (auto size : some_sizes)
    variables.push_back(flat(size));
  for (const auto& partitioner : some_partitioners)
    for (uint32_t owners = 1; owners <= 17; ++owners) {
      auto slices = cut(variables, partitioner);
      auto owner = assign(slices, owners);
      BOOST_TEST(owner.size() == slices.size());
      std::vector<uint64_t> load(owners);
      uint64_t largest = 0;
      for (size_t i = 0; i < slices.size(); ++i) {
        load.at(owner[i]) += slices[i].count;
        largest = std::max(largest, slices[i].count);
      }
      auto [least, most] = std::ranges::minmax(load);
      BOOST_TEST(most - least <= largest);
    }
}

BOOST_AUTO_TEST_CASE(owners_are_chosen_largest_first_ties_by_index) {
  std::vector<Slice> slices{
    {0, 0, 0, 10}, {1, 1, 0, 40}, {2, 2, 0, 10}, {3, 3, 0, 30}, {4, 4, 0, 20}};
  BOOST_TEST(assign(slices, 2) == (std::vector<uint32_t>{0, 0, 0, 1, 1}),
             boost::test_tools::per_element());
  BOOST_TEST(assign({}, 3).empty());
}

BOOST_AUTO_TEST_CASE(partitioners_print_as_on_the_command_line) {
  BOOST_TEST(to_string(Partitioner{FixedShards{3}}) == "fixed:3");
  BOOST_TEST(to_string(Partitioner{MinSize{1024, 4}}) == "min_size:1024:4");
  BOOST_TEST(to_string(Partitioner{MaxSize{}}) == "max_size:1048576");
  BOOST_TEST(to_string(Partitioner{MaxSize{4096, 2}}) == "max_size:4096:2");
}

BOOST_AUTO_TEST_CASE(a_printed_partitioner_reads_back_as_the_same) {
  for (std::string text :
       {"fixed:3", "min_size:1024:4", "min_size:1024", "max_size:1048576",
        "max_size:4096:2", "max_size:18446744073709551615"}) {
    Partitioner partitioner;
    BOOST_TEST(parse(text, partitioner), text);
    BOOST_TEST(to_string(partitioner) == text);
  }
}

BOOST_AUTO_TEST_CASE(min_size_without_a_limit_cuts_any_number_of_pieces) {
  Partitioner partitioner;
  BOOST_TEST(parse("min_size:16384", partitioner));
  BOOST_TEST(sizes(50 * block, partitioner).size() == 50u);
}

BOOST_AUTO_TEST_CASE(what_names_no_partitioner_is_refused_and_changes_nothing) {
  for (std::string text : {"",
                           ":",
                           "fixed",
                           "fixed:",
                           "fixed:0",
                           "fixed:-1",
                           "fixed:2x",
                           "fixed: 2",
                           "fixed:2:3",
                           "fixed:4294967296",
                           "min_size",
                           "min_size:0",
                           "min_size:5:0",
                           "min_size:5:",
                           "min_size:5:6:7",
                           "max_size:0",
                           "max_size:18446744073709551616",
                           "Max_size:5",
                           "even:5",
                           "5"}) {
    Partitioner partitioner = FixedShards{9};
    BOOST_TEST(!parse(text, partitioner), text);
    BOOST_TEST(to_string(partitioner) == "fixed:9");
  }
}

BOOST_AUTO_TEST_CASE(a_sparse_table_is_cut_into_its_partitions) {
  const Variable table{"table", {4'000'000, 16}, 5};
  const Variable bias{"bias", {10}};
  const auto slices = cut({table, bias}, MaxSize{});
  BOOST_TEST(slices.size() == 6u);
  for (uint32_t p = 0; p < 5; ++p) {
    BOOST_TEST(slices[p].sparse());
    BOOST_TEST(slices[p].partition == p);
    BOOST_TEST(slices[p].count == 0u);
  }
  BOOST_TEST(!slices[5].sparse());
  const auto owners = assign(slices, 5);
  std::set<uint32_t> used(owners.begin(), owners.begin() + 5);
  BOOST_TEST(used.size() == 5u);
}

BOOST_AUTO_TEST_CASE(partitions_keep_a_steps_rows_far_below_a_message) {
  const Variable small{"small", {100, 16}};
  const Variable large{"large", {20'000'000, 16}};
  BOOST_TEST(table_partitions(small, 1664) == 1u);
  BOOST_TEST(table_partitions(large, 1664) == 16u);
  const uint64_t rows = 10'000'000;
  const Variable keys{"keys", {rows, 1}};
  const auto parts = table_partitions(keys, rows);
  BOOST_TEST(rows / parts * 13 <= max_slice_bytes);
}

BOOST_AUTO_TEST_SUITE_END()
