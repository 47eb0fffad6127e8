#include "kernels/base/error.hpp"
#include "kernels/collective/shared_reducer.hpp"
#include "kernels/collective/shared_segment.hpp"
#include "kernels/cuda/nccl_reducer.hpp"
#include "kernels/cuda/replica.hpp"
#include "kernels/engine/device.hpp"
#include "tests/gpu/problem.hpp"

#include <chrono>
#include <thread>

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;

namespace {

boost::test_tools::assertion_result has_nccl(boost::unit_test::test_unit_id) {
  boost::test_tools::assertion_result result(false);
  try {
    if (cuda_device_count() > 0)
      result = !kernels::nccl_version().empty();
    result.message() << "no usable CUDA device";
  } catch (const InputError& missing) {
    result.message() << missing.what();
  }
  return result;
}

DeviceId gpu(uint32_t index) {
  DeviceId device;
  device.kind = DeviceId::Kind::cuda;
  device.index = index;
  return device;
}

/// A number of lines of 16 that members divide unevenly, and a rest.
constexpr uint64_t length = 16 * 33 + 7;

/// Addends that sum to other bits in another order.
std::vector<float> addend(uint32_t member, uint32_t vector) {
  std::mt19937 draw{member * 100 + vector};
  std::vector<float> values(length);
  for (auto& value : values)
    value = std::ldexp(static_cast<float>(draw() % 20'000) - 10'000,
                       static_cast<int>(draw() % 20));
  return values;
}

std::vector<float> sum_of(const SumProgram& program) {
  std::vector<std::vector<float>> stack;
  for (const auto& term : program) {
    stack.push_back(addend(term.member, term.vector));
    for (uint32_t i = 0; i < term.merges; ++i) {
      const auto newer = stack.back();
      stack.pop_back();
      for (uint64_t j = 0; j < length; ++j)
        stack.back()[j] += newer[j];
    }
  }
  return stack.empty() ? std::vector<float>(length) : stack.back();
}

/// Members of a group, each with a GPU, whose host side is shared memory.
class Members {
public:
  explicit Members(std::vector<DeviceId> gpus)
    : gpus_(std::move(gpus)), control_(SharedReducer::control_bytes(count())) {
    SharedReducer::prepare(control_.data(), count());
  }

  uint32_t count() const { return static_cast<uint32_t>(gpus_.size()); }

  std::unique_ptr<Reducer> reducer(uint32_t rank, bool any_order = false) {
    ReducerLayout layout{rank, count(), {{0, length}}, 1};
    return kernels::make_nccl_reducer(
      layout, gpus_[rank],
      std::make_unique<SharedReducer>(control_.data(), layout), any_order);
  }

  struct Outcome {
    CollectiveResult ended;
    std::vector<float> sum;
    std::vector<float> first; ///< addend, afterwards
  };
  /// Takes a step; by a thread of each member.
  Outcome take(Reducer& reducer, uint32_t rank, const SumProgram& program,
               std::chrono::milliseconds time = 30s) {
    const auto device = kernels::make_cuda_device(gpus_[rank],
                                                  Precision::float32);
    std::vector<std::shared_ptr<float>> memory;
    ReduceStep step;
    step.program = program;
    step.keeps_vectors = true;
    const auto array = [&] {
      memory.push_back(kernels::make_device_array(gpus_[rank], length));
      return memory.back().get();
    };
    for (uint32_t i = 0; i < 3; ++i) {
      step.vectors.push_back(array());
      device->upload(addend(rank, i).data(), step.vectors.back(),
                     length * sizeof(float));
    }
    step.results = {array()};
    reducer.start(step);
    reducer.ready(0);
    Outcome outcome{reducer.finish(SteadyClock::now() + time), {}, {}};
    if (outcome.ended.end != CollectiveEnd::done)
      return outcome;
    outcome.sum.resize(length);
    outcome.first.resize(length);
    device->download(memory.back().get(), outcome.sum.data(),
                     length * sizeof(float));
    device->download(memory.front().get(), outcome.first.data(),
                     length * sizeof(float));
    return outcome;
  }

  void check_steps(const std::vector<SumProgram>& programs) {
    std::vector<std::vector<Outcome>> outcomes(count());
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < count(); ++rank)
      threads.emplace_back([&, rank] {
        const auto member = reducer(rank);
        for (const auto& program : programs)
          outcomes[rank].push_back(take(*member, rank, program));
      });
    for (auto& thread : threads)
      thread.join();
    for (uint32_t rank = 0; rank < count(); ++rank)
      for (size_t i = 0; i < programs.size(); ++i) {
        const auto& outcome = outcomes[rank][i];
        BOOST_TEST(outcome.ended.reason == "");
        BOOST_TEST((outcome.sum == sum_of(programs[i])),
                   "member " << rank << ", step " << i);
        BOOST_TEST((outcome.first == addend(rank, 0)));
      }
  }

private:
  std::vector<DeviceId> gpus_;
  SharedSegment control_;
};

/// As many as the machine has, up to three.
std::vector<DeviceId> gpus() {
  std::vector<DeviceId> all;
  for (uint32_t i = 0; i < std::min(3u, cuda_device_count()); ++i)
    all.push_back(gpu(i));
  return all;
}

boost::test_tools::assertion_result
has_two_gpus(boost::unit_test::test_unit_id) {
  boost::test_tools::assertion_result result(gpus().size() >= 2);
  result.message() << "fewer than two usable CUDA devices";
  return result;
}

} // namespace

BOOST_AUTO_TEST_SUITE(gpu_nccl_test, *boost::unit_test::precondition(has_nccl))

BOOST_AUTO_TEST_CASE(one_member_has_the_programs_bits) {
  Members({gpu(0)}).check_steps({
    {{0, 0, 0}, {0, 1, 1}, {0, 2, 1}},
    {{0, 0, 0}, {0, 1, 0}, {0, 2, 2}},
    {{0, 1, 0}},
    {},
  });
}

BOOST_AUTO_TEST_CASE(members_with_unequal_shares_have_the_programs_bits) {
  Members members{gpus()};
  SumProgram left;
  SumProgram right;
  for (uint32_t member = 0; member < members.count(); ++member)
    for (uint32_t vector = 0; vector <= member; ++vector) {
      left.push_back({member, vector, left.empty() ? 0u : 1u});
      right.push_back({member, vector, 0});
    }
  right.back().merges = static_cast<uint32_t>(right.size()) - 1;
  members.check_steps({left, right, {{members.count() - 1, 2, 0}}});
}

BOOST_AUTO_TEST_CASE(a_sum_in_any_order_is_near_that_of_the_program) {
  Members members{gpus()};
  SumProgram program;
  for (uint32_t member = 0; member < members.count(); ++member)
    program.push_back({member, 0, member == 0 ? 0u : 1u});
  const auto want = sum_of(program);
  std::vector<Members::Outcome> outcomes(members.count());
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < members.count(); ++rank)
    threads.emplace_back([&, rank] {
      const auto member = members.reducer(rank, true);
      outcomes[rank] = members.take(*member, rank, program);
    });
  for (auto& thread : threads)
    thread.join();
  for (const auto& outcome : outcomes) {
    BOOST_REQUIRE(outcome.ended.reason == "");
    for (uint64_t i = 0; i < length; ++i)
      BOOST_REQUIRE(std::fabs(outcome.sum[i] - want[i])
                    <= 1e-6 * 1e4 * std::ldexp(1.0, 20));
    BOOST_TEST((outcome.sum == outcomes.front().sum));
  }
}

BOOST_AUTO_TEST_CASE(nobody_hangs_for_a_member_that_does_not_come) {
  const auto begin = SteadyClock::now();
  Members late{{gpu(0), gpu(0)}};
  const auto alone = late.reducer(0);
  const auto ended = late.take(*alone, 0, {{0, 0, 0}}, 1s).ended;
  BOOST_TEST((ended.end == CollectiveEnd::late));
  BOOST_TEST(
    (late.take(*alone, 0, {{0, 0, 0}}, 1s).ended.end != CollectiveEnd::done));

  Members aborted{{gpu(0), gpu(0)}};
  const auto waiting = aborted.reducer(0);
  std::thread other([&] {
    std::this_thread::sleep_for(300ms);
    waiting->abort("worker:1 has ended");
  });
  const auto off = aborted.take(*waiting, 0, {{0, 0, 0}}).ended;
  other.join();
  BOOST_TEST((off.end == CollectiveEnd::aborted));
  BOOST_TEST(off.reason == "worker:1 has ended");
  BOOST_TEST((SteadyClock::now() - begin < 20s));
}

BOOST_AUTO_TEST_CASE(nobody_hangs_for_a_member_that_ends_within_a_group,
                     *boost::unit_test::precondition(has_two_gpus)) {
  Members members{{gpu(0), gpu(1)}};
  const SumProgram program{{0, 0, 0}, {1, 0, 1}};
  std::vector<Members::Outcome> outcomes(2);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      const auto member = members.reducer(rank);
      outcomes[rank] = members.take(*member, rank, program);
      if (rank == 1)
        return; // it is gone, and its communicator with it
      std::thread watch([&] {
        std::this_thread::sleep_for(300ms);
        member->lost(1);
        member->abort("worker:1 has ended");
      });
      outcomes[0] = members.take(*member, rank, program);
      watch.join();
    });
  for (auto& thread : threads)
    thread.join();
  BOOST_TEST((outcomes[0].ended.end == CollectiveEnd::aborted));
  BOOST_TEST((outcomes[1].sum == sum_of(program)));
}

BOOST_AUTO_TEST_CASE(two_members_on_one_gpu_are_refused) {
  Members members{{gpu(0), gpu(0)}};
  std::vector<CollectiveResult> ended(2);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      const auto member = members.reducer(rank);
      ended[rank] = members.take(*member, rank, {{0, 0, 0}, {1, 0, 1}}).ended;
    });
  for (auto& thread : threads)
    thread.join();
  for (const auto& one : ended) {
    BOOST_TEST((one.end == CollectiveEnd::mismatch));
    BOOST_TEST(one.reason.find("a GPU of its own") != std::string::npos);
  }
}

BOOST_AUTO_TEST_SUITE_END()
