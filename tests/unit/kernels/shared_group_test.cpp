#include "kernels/buffer.hpp"
#include "kernels/collective/shared_group.hpp"
#include "kernels/collective/sum_loops.hpp"

#include <boost/test/unit_test.hpp>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <thread>

using namespace troupe;

namespace {

using Clock = std::chrono::steady_clock;

Clock::time_point soon() {
  return Clock::now() + std::chrono::seconds{20};
}

struct Release {
  void operator()(std::byte* memory) const { std::free(memory); }
};

/// The memory of a group.
std::unique_ptr<std::byte, Release> made(uint32_t members) {
  const auto bytes = (SharedGroup::memory_bytes(members) + 127) / 128 * 128;
  std::unique_ptr<std::byte, Release> memory(
    static_cast<std::byte*>(std::aligned_alloc(128, bytes)));
  SharedGroup::prepare(memory.get(), members);
  return memory;
}

float value_of(uint32_t member, size_t i, int round) {
  return static_cast<float>((member * 7919 + i * 104729 + round * 31) % 1000)
           / 37.0f
         - 11.0f;
}

/// The tree that PROTOCOL 3 defines, as it is written there.
float tree(const std::vector<float>& values, size_t lo, size_t hi) {
  if (hi - lo == 1)
    return values[lo];
  size_t half = 1;
  while (2 * half < hi - lo)
    half *= 2;
  return tree(values, lo, lo + half) + tree(values, lo + half, hi);
}

float sum_of(uint32_t members, size_t i, int round) {
  std::vector<float> values;
  for (uint32_t k = 0; k < members; ++k)
    values.push_back(value_of(k, i, round));
  return tree(values, 0, members);
}

} // namespace

BOOST_AUTO_TEST_SUITE(shared_group)

BOOST_AUTO_TEST_CASE(everybody_gets_the_sum_along_the_tree) {
  for (uint32_t members : {1u, 2u, 3u, 4u, 5u, 8u, 13u}) {
    auto memory = made(members);
    std::vector<std::thread> threads;
    std::vector<size_t> wrong(members, 0);
    for (uint32_t rank = 0; rank < members; ++rank)
      threads.emplace_back([&, rank] {
        SharedGroup group(memory.get(), rank);
        int round = 0;
        // Short and long by turns, several of each, odd lengths.
        for (size_t count : {1, 4096, 4097, 17, 100'003, 4111, 3, 70'000, 5})
          for (int again = 0; again < 3; ++again, ++round) {
            Buffer data(count + 16);
            for (size_t i = 0; i < count; ++i)
              data.data()[i] = value_of(rank, i, round);
            data.data()[count] = 42;
            if (group.all_reduce(data.data(), count, soon())
                != CollectiveEnd::done)
              ++wrong[rank];
            for (size_t i = 0; i < count; i += 1 + i / 50)
              wrong[rank] += data.data()[i] != sum_of(members, i, round);
            wrong[rank] += data.data()[count] != 42;
          }
      });
    for (auto& thread : threads)
      thread.join();
    for (auto count : wrong)
      BOOST_TEST(count == 0u);
  }
}

BOOST_AUTO_TEST_CASE(members_may_map_the_memory_at_other_addresses) {
  constexpr uint32_t members = 2;
  constexpr size_t count = 20'000;
  const auto own = SharedGroup::memory_bytes(members);
  const size_t vectors_at = (own + 4095) / 4096 * 4096;
  const size_t bytes = vectors_at + members * count * sizeof(float);
  const int file = memfd_create("group", MFD_CLOEXEC);
  BOOST_REQUIRE(file >= 0);
  BOOST_REQUIRE_EQUAL(ftruncate(file, static_cast<off_t>(bytes)), 0);
  std::byte* views[members];
  for (auto& view : views)
    view = static_cast<std::byte*>(
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
  close(file);
  BOOST_REQUIRE(views[0] != views[1]);
  SharedGroup::prepare(views[0], members);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < members; ++rank)
    threads.emplace_back([&, rank] {
      auto* view = views[rank];
      SharedGroup group(view, rank, {view, view});
      auto* data = reinterpret_cast<float*>(view + vectors_at) + rank * count;
      for (size_t i = 0; i < count; ++i)
        data[i] = value_of(rank, i, 0);
      BOOST_TEST(
        (group.all_reduce(data, count, soon()) == CollectiveEnd::done));
    });
  for (auto& thread : threads)
    thread.join();
  const auto* data = reinterpret_cast<const float*>(views[1] + vectors_at);
  for (size_t i = 0; i < members * count; ++i)
    BOOST_REQUIRE_EQUAL(data[i], sum_of(members, i % count, 0));
  for (auto* view : views)
    munmap(view, bytes);
}

BOOST_AUTO_TEST_CASE(an_abort_ends_a_wait_on_every_member_and_what_follows) {
  for (size_t count : {size_t{10}, size_t{50'000}}) {
    auto memory = made(3);
    std::vector<std::thread> threads;
    CollectiveEnd ends[2] = {};
    for (uint32_t rank = 0; rank < 2; ++rank)
      threads.emplace_back([&, rank] {
        SharedGroup group(memory.get(), rank);
        Buffer data(count);
        data.fill(1);
        ends[rank] = group.all_reduce(data.data(), count, soon());
        BOOST_TEST((group.all_reduce(data.data(), count, soon())
                    == CollectiveEnd::aborted));
      });
    SharedGroup(memory.get(), 2).abort(); // the third never comes
    for (auto& thread : threads)
      thread.join();
    for (auto end : ends)
      BOOST_TEST((end == CollectiveEnd::aborted));
  }
}

BOOST_AUTO_TEST_CASE(
  a_member_that_never_comes_ends_the_others_at_the_deadline) {
  auto memory = made(2);
  SharedGroup group(memory.get(), 0);
  Buffer data(100);
  data.fill(1);
  const auto deadline = Clock::now() + std::chrono::milliseconds{50};
  BOOST_TEST(
    (group.all_reduce(data.data(), 100, deadline) == CollectiveEnd::late));
  BOOST_TEST((SharedGroup(memory.get(), 1).all_reduce(data.data(), 100, soon())
              == CollectiveEnd::aborted));
}

BOOST_AUTO_TEST_CASE(vectors_of_other_lengths_are_an_error_for_everybody) {
  // Both short, both long, and one of each.
  for (auto [first, second] :
       {std::pair<size_t, size_t>{7, 8}, {50'000, 50'001}, {7, 50'000}}) {
    auto memory = made(2);
    const size_t counts[] = {first, second};
    std::vector<std::thread> threads;
    CollectiveEnd ends[2] = {};
    for (uint32_t rank = 0; rank < 2; ++rank)
      threads.emplace_back([&, rank] {
        SharedGroup group(memory.get(), rank);
        Buffer data(counts[rank]);
        data.fill(1);
        ends[rank] = group.all_reduce(data.data(), counts[rank], soon());
      });
    for (auto& thread : threads)
      thread.join();
    for (auto end : ends)
      BOOST_TEST(
        (end == CollectiveEnd::mismatch || end == CollectiveEnd::aborted));
    BOOST_TEST((ends[0] == CollectiveEnd::mismatch
                || ends[1] == CollectiveEnd::mismatch));
  }
}

BOOST_AUTO_TEST_CASE(sums_have_the_same_bits_on_every_instruction_set) {
  using namespace troupe::kernels;
  std::mt19937 random(3);
  std::normal_distribution<float> draw;
  for (uint32_t n : {1u, 2u, 3u, 4u, 7u, 64u}) {
    std::vector<std::vector<float>> values(n, std::vector<float>(1003));
    for (auto& vector : values)
      for (auto& value : vector)
        value = draw(random);
    std::vector<float> want(1003);
    for (size_t i = 0; i < want.size(); ++i) {
      std::vector<float> terms;
      for (const auto& vector : values)
        terms.push_back(vector[i]);
      want[i] = tree(terms, 0, n);
    }
    for (auto isa : {Isa::sse4, Isa::avx2, Isa::avx512}) {
      if (!has_isa(isa))
        continue;
      auto copies = values;
      std::vector<float*> at;
      for (auto& vector : copies)
        at.push_back(vector.data());
      std::vector<float> out(want.size());
      sum_loops(isa).sum_into(at.data(), n, out.data(), out.size());
      BOOST_TEST((out == want));
      sum_loops(isa).sum_to_all(at.data(), n, 5, 1001);
      for (uint32_t k = 0; k < n; ++k)
        for (size_t i = 0; i < want.size(); ++i)
          BOOST_REQUIRE_EQUAL(copies[k][i],
                              i >= 5 && i < 1001 ? want[i] : values[k][i]);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
