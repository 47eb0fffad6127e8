#include "apps/bench/reduce_carriers.hpp"
#include "apps/bench/reduce_members.hpp"
#include "apps/bench/reduce_pattern.hpp"
#include "kernels/base/buffer.hpp"
#include "kernels/base/error.hpp"

#include <boost/test/unit_test.hpp>
#include <signal.h>
#include <unistd.h>

#include <atomic>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(reduce_members_suite)

namespace {

/// Brings whatever `reduce` makes of the vector.
class Made final : public ReduceCarrier {
public:
  using Reduce = std::function<CollectiveResult(float*, uint64_t)>;
  explicit Made(Reduce reduce) : reduce_(std::move(reduce)) {}
  float* memory(uint64_t bytes) override {
    buffer_ = std::make_unique<Buffer>(bytes / sizeof(float));
    return buffer_->data();
  }
  CollectiveResult all_reduce(float* data, uint64_t count, Deadline) override {
    return reduce_(data, count);
  }

private:
  Reduce reduce_;
  std::unique_ptr<Buffer> buffer_;
};

std::string failure_of(bool processes, const Made::Reduce& reduce) {
  ReduceMembers::Options options;
  options.name = "made";
  options.processes = processes;
  options.make = [&](uint32_t) { return std::make_unique<Made>(reduce); };
  ReduceMembers members{std::move(options)};
  try {
    members.run({4'096, 3});
  } catch (const InputError& failure) {
    return failure.what();
  }
  BOOST_ERROR("the round must fail");
  return {};
}

} // namespace

BOOST_AUTO_TEST_CASE(a_wrong_sum_is_refused_and_its_member_named) {
  const auto said =
    failure_of(false, [](float*, uint64_t) { return CollectiveResult{}; });
  BOOST_TEST(said.find("its vector is not the sum") != std::string::npos, said);
  BOOST_TEST(said.find("member ") != std::string::npos, said);
}

BOOST_AUTO_TEST_CASE(one_wrong_element_of_many_is_found) {
  const auto sum = ReducePattern::sum(2, false);
  std::atomic<uint32_t> iteration = 0;
  const auto said = failure_of(true, [&](float* data, uint64_t count) {
    sum.fill(data, count, iteration++); // a process has its own
    data[count - 1] = -data[count - 1];
    return CollectiveResult{};
  });
  BOOST_TEST(said.find("not the sum") != std::string::npos, said);
}

BOOST_AUTO_TEST_CASE(a_failed_collective_fails_the_round_with_its_reason) {
  const auto said = failure_of(true, [](float*, uint64_t) {
    return CollectiveResult{CollectiveEnd::mismatch, "made to fail"};
  });
  BOOST_TEST(said.find("made to fail") != std::string::npos, said);
}

BOOST_AUTO_TEST_CASE(a_member_process_that_dies_is_noticed) {
  const auto said = failure_of(true, [](float*, uint64_t) -> CollectiveResult {
    kill(getpid(), SIGKILL);
    return {};
  });
  BOOST_TEST(said.find("died") != std::string::npos, said);
}

BOOST_AUTO_TEST_CASE(every_link_gives_the_sum_in_both_reductions) {
  for (auto link : {ReduceLink::memory, ReduceLink::shm, ReduceLink::tcp})
    for (uint32_t members : {1u, 2u, 5u})
      for (bool reproducible : {true, false}) {
        ReduceGroup group;
        group.link = link;
        group.members = members;
        group.max_bytes = 1 << 20;
        group.reproducible = reproducible;
        for (auto* make : {&make_own_side, &make_limit}) {
          auto side = (*make)(group);
          for (uint64_t bytes : {4u, 8'188u, 1u << 20})
            BOOST_TEST(side->run({bytes, 3}).us > 0); // throws on a wrong sum
        }
      }
}

BOOST_AUTO_TEST_CASE(patterns_differ_by_rank_and_by_iteration) {
  constexpr uint64_t count = 10'000;
  Buffer data{count};
  const auto first = ReducePattern::of(0, false);
  first.fill(data.data(), count, 5);
  BOOST_TEST(first.equals(data.data(), count, 5));
  BOOST_TEST(!first.equals(data.data(), count, 6));
  BOOST_TEST(!ReducePattern::of(1, false).equals(data.data(), count, 5));
  BOOST_TEST(!ReducePattern::of(0, true).equals(data.data(), count, 5));
}

BOOST_AUTO_TEST_CASE(the_sum_follows_the_fixed_tree) {
  constexpr uint64_t count = ReducePattern::period;
  float values[3][count];
  for (uint32_t rank = 0; rank < 3; ++rank)
    ReducePattern::of(rank, false).fill(values[rank], count, 0);
  float tree[count];
  float other[count];
  for (uint64_t i = 0; i < count; ++i) {
    tree[i] = (values[0][i] + values[1][i]) + values[2][i];
    other[i] = values[0][i] + (values[1][i] + values[2][i]);
  }
  const auto sum = ReducePattern::sum(3, false);
  BOOST_TEST(sum.equals(tree, count, 0));
  BOOST_TEST(!sum.equals(other, count, 0)); // so the pattern tells them apart
}

BOOST_AUTO_TEST_SUITE_END()
