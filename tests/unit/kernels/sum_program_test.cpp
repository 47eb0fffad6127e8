#include "kernels/base/buffer.hpp"
#include "kernels/collective/sum_loops.hpp"
#include "kernels/collective/sum_program.hpp"
#include "shared_group.hpp"

#include <boost/test/unit_test.hpp>

#include <random>

using namespace troupe;
using namespace troupe::kernels;
using namespace troupe::shared_group;

BOOST_AUTO_TEST_SUITE(sum_program)

namespace {

SumProgram from_left(uint32_t count) {
  SumProgram program;
  for (uint32_t k = 0; k < count; ++k)
    program.push_back({k, 0, k == 0 ? 0u : 1u});
  return program;
}

SumProgram from_right(uint32_t count) {
  SumProgram program;
  for (uint32_t k = 0; k < count; ++k)
    program.push_back({k, 0, k + 1 == count ? count - 1 : 0u});
  return program;
}

} // namespace

BOOST_AUTO_TEST_CASE(the_fixed_tree_is_that_of_the_protocol) {
  std::mt19937 random(3);
  std::normal_distribution<float> draw;
  for (uint32_t n = 1; n <= 70; ++n) {
    std::vector<float> values(n);
    for (auto& value : values)
      value = draw(random);
    const auto program = fixed_tree(n);
    BOOST_REQUIRE(is_sum(program, n));
    BOOST_REQUIRE_EQUAL(sum_of(program,
                               [&](uint32_t m, uint32_t) { return values[m]; }),
                        tree_of(values));
  }
}

BOOST_AUTO_TEST_CASE(programs_that_leave_no_sum_are_told) {
  BOOST_TEST(is_sum({{0, 0, 0}}, 1));
  BOOST_TEST(!is_sum({}, 1));
  BOOST_TEST(!is_sum({{0, 0, 1}}, 1));
  BOOST_TEST(!is_sum({{0, 0, 0}, {0, 1, 0}}, 1));
  BOOST_TEST(!is_sum({{0, 0, 0}, {0, 1, 2}}, 1));
  BOOST_TEST(!is_sum({{1, 0, 0}}, 1));
  BOOST_TEST(!is_sum({{0, 0, 0}, {0, 1, UINT32_MAX}}, 1));
  BOOST_TEST(is_sum(from_right(deepest_sum), deepest_sum));
  BOOST_TEST(!is_sum(from_right(deepest_sum + 1), deepest_sum + 1));
}

BOOST_AUTO_TEST_CASE(other_programs_have_other_hashes) {
  BOOST_TEST(hash_of(fixed_tree(4)) == hash_of(fixed_tree(4)));
  BOOST_TEST(hash_of(fixed_tree(4)) != hash_of(from_left(4)));
  BOOST_TEST(hash_of(fixed_tree(4)) != hash_of(fixed_tree(5)));
  BOOST_TEST(hash_of({{0, 1, 0}}) != hash_of({{1, 0, 0}}));
}

BOOST_AUTO_TEST_CASE(sums_have_the_same_bits_on_every_instruction_set) {
  constexpr size_t length = 1003;
  std::mt19937 random(3);
  std::normal_distribution<float> draw;
  std::vector<SumProgram> programs = {from_left(3), from_left(4),
                                      from_right(40)};
  for (uint32_t n : {1u, 2u, 3u, 4u, 7u, 64u})
    programs.push_back(fixed_tree(n));
  for (const auto& program : programs) {
    const auto n = program.size();
    std::vector<std::vector<float>> values(n + 1, std::vector<float>(length));
    for (auto& vector : values)
      for (auto& value : vector)
        value = draw(random);
    std::vector<uint32_t> merges;
    for (const auto& term : program)
      merges.push_back(term.merges);
    std::vector<float> want(length);
    for (size_t i = 0; i < length; ++i)
      want[i] = sum_of(program,
                       [&](uint32_t m, uint32_t) { return values[m][i]; });
    for (auto isa : every_isa)
      for (bool past_cache : {false, true}) {
        if (!has_isa(isa))
          continue;
        // In place and beside, from an odd place to another; streaming needs
        // arrays at cache lines.
        std::vector<Buffer> copies;
        std::vector<float*> out;
        for (const auto& vector : values) {
          copies.emplace_back(length);
          std::copy_n(vector.data(), length, copies.back().data());
          out.push_back(copies.back().data());
        }
        const std::vector<const float*> from(out.begin(), out.end() - 1);
        const auto& loops = sum_loops(isa);
        (past_cache ? loops.sum_past_cache : loops.sum)(
          {from.data(), merges.data(), static_cast<uint32_t>(n)}, 5, 1001,
          out.data(), static_cast<uint32_t>(out.size()));
        for (size_t k = 0; k < out.size(); ++k)
          for (size_t i = 0; i < length; ++i)
            BOOST_REQUIRE_EQUAL(out[k][i],
                                i >= 5 && i < 1001 ? want[i] : values[k][i]);
      }
  }
}

BOOST_AUTO_TEST_CASE(copies_past_the_caches_copy_just_that) {
  std::vector<float> from(300);
  for (size_t i = 0; i < from.size(); ++i)
    from[i] = static_cast<float>(i);
  for (auto isa : every_isa)
    for (size_t offset : {0, 1, 15, 16})
      for (size_t count : {0, 1, 16, 17, 200}) {
        if (!has_isa(isa))
          continue;
        std::vector<float> to(300, -1);
        sum_loops(isa).copy_past_cache(from.data() + 3, to.data() + offset,
                                       count);
        for (size_t i = 0; i < to.size(); ++i)
          BOOST_REQUIRE_EQUAL(to[i], i >= offset && i < offset + count
                                       ? from[i - offset + 3]
                                       : -1);
      }
}

BOOST_AUTO_TEST_SUITE_END()
