#include "actors/shard/shard_store.hpp"
#include "tests/unit/actors/small_job.hpp"

#include <boost/test/unit_test.hpp>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace troupe;
using namespace troupe::test;

namespace shard_store {
namespace {

constexpr uint64_t job_id = 77;

struct Bench {
  Bench() : job(small_job(), 500), memory(memfd_create("test", MFD_CLOEXEC)) {
    for (const auto& slice : job.plan.slices)
      all.push_back(slice.id);
  }
  ~Bench() { close(memory); }

  std::unique_ptr<ShardStore> open(uint64_t id = job_id) const {
    return std::make_unique<ShardStore>(job, all, id, memory);
  }

  Job job;
  int memory;
  std::vector<uint32_t> all;
};

} // namespace
} // namespace shard_store

BOOST_FIXTURE_TEST_SUITE(shard_store, Bench)

BOOST_AUTO_TEST_CASE(new_memory_holds_the_initial_parameters) {
  auto store = open();
  BOOST_TEST(!store->taken_over());
  BOOST_TEST(store->newest(0) == 0u);
  const auto& slice = job.plan.slices[0];
  std::vector<float> expected(slice.count);
  initialize(job.graph, job.options.seed, slice.variable, slice.offset,
             expected.data(), slice.count);
  BOOST_TEST(std::equal(expected.begin(), expected.end(), store->values(0, 0)));
}

// I2
BOOST_AUTO_TEST_CASE(a_new_process_takes_over_what_was_committed) {
  {
    auto store = open();
    auto target = store->begin(1);
    target.values[0] = 42;
    target.state[0] = 43;
    store->commit(1);
  }
  auto store = open();
  BOOST_TEST(store->taken_over());
  BOOST_TEST(store->newest(1) == 1u);
  BOOST_TEST(store->oldest(1) == 0u);
  BOOST_TEST(store->values(1, 1)[0] == 42);
  BOOST_TEST(store->state(1, 1)[0] == 43);
  BOOST_TEST(store->newest(0) == 0u);
}

BOOST_AUTO_TEST_CASE(an_update_cut_short_leaves_the_newest_version_whole) {
  {
    auto store = open();
    store->begin(0).values[0] = 1;
    store->commit(0);
    store->begin(0).values[0] = 2; // killed here: no commit
  }
  auto store = open();
  BOOST_TEST(store->newest(0) == 1u);
  BOOST_TEST(store->oldest(0) == 1u); // version 0 was being overwritten
  BOOST_TEST(store->values(0, 1)[0] == 1);
}

BOOST_AUTO_TEST_CASE(memory_of_another_job_is_not_taken_over) {
  {
    auto store = open();
    store->begin(0).values[0] = 1;
    store->commit(0);
  }
  auto store = open(job_id + 2);
  BOOST_TEST(!store->taken_over());
  BOOST_TEST(store->newest(0) == 0u);
}

BOOST_AUTO_TEST_CASE(the_leases_applied_are_part_of_the_version) {
  {
    auto store = open();
    LeaseSet applied{3, {5, 9}};
    store->begin(0);
    store->commit(0, applied);
    store->begin(0); // cut short with more leases
  }
  auto leases = open()->leases(0);
  BOOST_TEST(leases.floor() == 3u);
  BOOST_TEST(leases.contains(9));
  BOOST_TEST(!leases.contains(4));
}

BOOST_AUTO_TEST_CASE(a_reset_goes_back_to_the_seed) {
  auto store = open();
  const auto first = store->values(0, 0)[0];
  store->begin(0).values[0] = 5;
  store->commit(0);
  store->reset(all, nullptr);
  BOOST_TEST(store->newest(0) == 0u);
  BOOST_TEST(store->values(0, 0)[0] == first);
  BOOST_TEST(store->leases(0).size() == 0u);
}

// PROTOCOL 5: written down before anybody is told.
BOOST_AUTO_TEST_CASE(what_was_decided_outlives_the_process) {
  {
    auto store = open();
    BOOST_TEST(store->decided(0, 0).empty());
    store->decide(7, 0, {0.5f});
    store->decide(7, 1, {1, 2, 3});
    store->decide(8, 0, {0.25f});
  }
  auto store = open();
  BOOST_TEST((store->decided(7, 0) == std::vector{0.5f}));
  BOOST_TEST((store->decided(7, 1) == std::vector<float>{1, 2, 3}));
  BOOST_TEST((store->decided(8, 0) == std::vector{0.25f}));
  BOOST_TEST(store->decided(8, 1).empty());
  BOOST_TEST(store->decided(8, 2).empty());
  store->decide(9, 0, {4});
  BOOST_TEST(store->decided(7, 0).empty()); // step 9 proves it applied
  store->reset(all, nullptr);
  BOOST_TEST(store->decided(9, 0).empty());
  BOOST_TEST(open()->decided(8, 0).empty());
}

BOOST_AUTO_TEST_CASE(a_copy_takes_the_place_of_what_was_there) {
  {
    auto store = open();
    auto target = store->replace(1, 7);
    BOOST_TEST(!store->holds(1));
    target.values[0] = 5;
    store->install(1, 7, {3, {9}});
    store->set_lineage(1, 4);
  }
  auto store = open();
  BOOST_TEST(store->holds(1));
  BOOST_TEST(store->newest(1) == 7u);
  BOOST_TEST(store->oldest(1) == 7u);
  BOOST_TEST(store->values(1, 7)[0] == 5);
  BOOST_TEST(store->leases(1).contains(9));
  BOOST_TEST(store->lineage(1) == 4u);
}

BOOST_AUTO_TEST_CASE(a_copy_cut_short_is_not_held) {
  open()->replace(1, 7).values[0] = 5;
  auto store = open();
  BOOST_TEST(!store->holds(1));
  BOOST_TEST(store->holds(0));
  BOOST_TEST(store->slices().size() == all.size() - 1);
}

BOOST_AUTO_TEST_CASE(only_slices_that_are_here_cost_memory) {
  const auto used = [&] {
    struct stat found {};
    fstat(memory, &found);
    return found.st_blocks * 512;
  };
  ShardStore store{job, {}, job_id, memory};
  BOOST_TEST(store.slices().empty());
  const auto empty = used();
  store.reset(all, nullptr);
  const auto full = used();
  BOOST_TEST(full > empty);
  for (auto slice : all)
    store.drop(slice);
  BOOST_TEST(used() - empty < (full - empty) / 4);
  BOOST_TEST(store.slices().empty());
}

BOOST_AUTO_TEST_SUITE_END()
