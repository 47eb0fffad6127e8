#include "actors/coordinator/remains.hpp"
#include "actors/shard/shard_store.hpp"
#include "actors/sockets/descriptor.hpp"
#include "tests/unit/actors/small_job.hpp"

#include <boost/test/unit_test.hpp>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

using namespace troupe;
using namespace troupe::test;

namespace remains {
namespace {

constexpr uint64_t job_id = 77;

JobOptions meshed_job() {
  auto options = small_job();
  options.strategy = Strategy::hybrid;
  options.model = "mlp:20-16-16-4";
  options.cut.mesh = {2, 2, 1};
  options.cut.split_at = "flops";
  return options;
}

/// What the four stages of two pipelines keep: 0 and 2 the same, 1 and 3.
struct Bench {
  Bench() : job(meshed_job(), 500) {
    for (uint32_t stage = 0; stage < 4; ++stage)
      memory.emplace_back(memfd_create("test", MFD_CLOEXEC));
    for (uint32_t stage = 0; stage < 4; ++stage)
      at_version(stage, 0);
  }

  const std::vector<uint32_t>& slices(uint32_t stage) const {
    return job.plan.role({RoleKind::stage, stage}).slices;
  }
  std::unique_ptr<ShardStore> open(uint32_t stage, uint64_t id = job_id) {
    return std::make_unique<ShardStore>(job, slices(stage), id,
                                        memory[stage].get());
  }
  /// Each value of a version is its number.
  void at_version(uint32_t stage, uint64_t version) {
    const auto store = open(stage);
    for (auto slice : slices(stage))
      while (store->newest(slice) < version) {
        const auto to = store->begin(slice);
        std::fill_n(to.values, job.plan.slices[slice].count,
                    static_cast<float>(store->newest(slice) + 1));
        store->commit(slice);
      }
  }
  void lose(uint32_t stage) {
    memory[stage] = Descriptor{memfd_create("test", MFD_CLOEXEC)};
  }
  std::string path(uint32_t stage) const {
    return "/proc/self/fd/" + std::to_string(memory[stage].get());
  }
  std::optional<Snapshot> left(const std::vector<uint32_t>& stages) const {
    std::vector<std::string> states;
    for (auto stage : stages)
      states.push_back(path(stage));
    return what_remains(job, job_id, states);
  }
  void check_whole(const std::optional<Snapshot>& found, uint64_t version) {
    BOOST_REQUIRE(found.has_value());
    BOOST_TEST(found->version == version);
    BOOST_REQUIRE(found->slices.size() == job.plan.slices.size());
    for (const auto& slice : job.plan.slices) {
      const auto& of = found->slices[slice.id];
      BOOST_TEST(of.slice == slice.id);
      BOOST_TEST(of.history.updates == version);
      BOOST_TEST(of.values.size() == slice.count);
      if (version > 0)
        BOOST_TEST(of.values.span()[0] == static_cast<float>(version));
    }
  }

  Job job;
  std::vector<Descriptor> memory;
};

} // namespace
} // namespace remains

BOOST_FIXTURE_TEST_SUITE(remains, Bench)

BOOST_AUTO_TEST_CASE(the_newest_version_is_that_which_all_together_have) {
  check_whole(left({0, 1, 2, 3}), 0);
  at_version(0, 5);
  at_version(1, 4);
  at_version(2, 4);
  at_version(3, 5);
  check_whole(left({0, 1, 2, 3}), 5);
  check_whole(left({0, 1}), 4);
  check_whole(left({1, 2}), 4);
  check_whole(left({2, 3}), 4);
}

BOOST_AUTO_TEST_CASE(who_holds_the_same_has_what_one_has_lost) {
  for (uint32_t stage = 0; stage < 4; ++stage)
    at_version(stage, 7);
  lose(1);
  check_whole(left({0, 1, 2, 3}), 7);
  at_version(1, 0); // it has begun anew
  check_whole(left({0, 1, 2, 3}), 7);
  BOOST_TEST(!left({0, 1}));
  BOOST_TEST(!left({0, 2}));
  lose(3);
  BOOST_TEST(!left({0, 2, 3}));
  BOOST_TEST(!left({0, 1, 2, 3})); // 1 has what is too old for the others
}

BOOST_AUTO_TEST_CASE(what_is_of_another_job_or_not_there_is_lost) {
  at_version(0, 3);
  at_version(1, 3);
  lose(2);
  open(2, job_id + 1);
  check_whole(left({0, 1, 2}), 3);
  BOOST_TEST(!left({2, 1}));
  BOOST_TEST(!what_remains(job, job_id, {}));
  BOOST_TEST(!what_remains(job, job_id, {"/nowhere", path(1)}));
}

BOOST_AUTO_TEST_SUITE_END()
