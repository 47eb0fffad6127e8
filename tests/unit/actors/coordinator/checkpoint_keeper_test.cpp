#include "actors/coordinator/checkpoint_keeper.hpp"
#include "actors/job/first_period.hpp"
#include "actors/replica/memory.hpp"
#include "actors/shard/shard_store.hpp"
#include "kernels/base/error.hpp"
#include "tests/unit/actors/small_job.hpp"

#include <boost/test/unit_test.hpp>
#include <unistd.h>

#include <filesystem>
#include <fstream>

using namespace troupe;
using namespace troupe::test;

namespace checkpoint_keeper {
namespace {

namespace fs = std::filesystem;

struct Folder {
  fs::path path = fs::temp_directory_path()
                  / ("troupe-keeper-" + std::to_string(::getpid()));
  Folder() { fs::remove_all(path); }
  ~Folder() { fs::remove_all(path); }

  CheckpointOptions options(bool resume = false) const {
    return {path.string(), 10, 2, resume};
  }
};

/// A variable of more than one slice.
JobOptions wide_job() {
  auto options = small_job();
  options.model = "mlp:20-600-4";
  return options;
}

JobOptions served(Synchronisation mode = Synchronisation::sync) {
  auto options = wide_job();
  options.strategy = Strategy::parameter_server;
  options.synchronisation = mode;
  options.workers = 2;
  options.shards = 2;
  return options;
}

/// Made-up values of which each tells where it belongs.
float value_at(uint32_t variable, uint32_t run, uint64_t element) {
  return static_cast<float>(1000 * variable + 100'000 * run + element);
}

TensorView made_up(const Slice& slice, uint32_t run) {
  std::vector<float> values(slice.count);
  for (uint64_t i = 0; i < slice.count; ++i)
    values[i] = value_at(slice.variable, run, slice.offset + i);
  return TensorView::copy(values);
}

/// Every slice with so many updates, and the leases that `history` says.
template <class History>
Snapshot snapshot_of(const Job& job, uint64_t version, History history) {
  Snapshot out;
  out.version = version;
  for (const auto& slice : job.plan.slices) {
    SnapshotSlice part{1, version, slice.id, made_up(slice, 0), {}};
    for (uint32_t i = 0; i < state_slots(job.options.rule.kind); ++i)
      part.state.push_back(made_up(slice, 1 + i));
    part.history = history(slice.id);
    out.slices.push_back(std::move(part));
  }
  return out;
}

Snapshot sync_snapshot(const Job& job, uint64_t version) {
  return snapshot_of(job, version, [&](uint32_t) {
    return SliceHistory{version, version * job.options.virtual_ranks, {}};
  });
}

struct Bench : Folder {
  CheckpointOutcome write(const std::shared_ptr<const Job>& job,
                          const Snapshot& snapshot, Consistency period = {}) {
    start_checkpoints(options(true));
    MetricRegistry metrics;
    CheckpointKeeper keeper{job, options(), "0a", metrics};
    auto outcome = keeper.write(snapshot, period, "periodic", {});
    BOOST_REQUIRE(outcome.failure.empty());
    return outcome;
  }
};

bool says(const InputError& failure, const std::string& what) {
  return std::string{failure.what()}.find(what) != std::string::npos;
}

} // namespace
} // namespace checkpoint_keeper

BOOST_FIXTURE_TEST_SUITE(checkpoint_keeper, Bench)

BOOST_AUTO_TEST_CASE(another_strategy_begins_with_the_values_of_a_checkpoint) {
  const auto first = std::make_shared<const Job>(served(), 500);
  auto options = wide_job();
  options.partitioner = "fixed:2";
  options.resume_from = write(first, sync_snapshot(*first, 7)).folder;
  const Job job{options, 500};
  BOOST_TEST(job.first_step() == 7u);
  VariableBanks banks{job, std::make_shared<FlatArrays>(job, 6, false), 0, 2};
  BOOST_TEST(banks.version() == 7u);
  const auto arrays = banks.all(7);
  BOOST_REQUIRE(arrays.size() == 3u);
  for (uint32_t i = 0; i < job.graph.parameters.size(); ++i)
    for (uint32_t run = 0; run < 3; ++run)
      for (uint64_t at = 0; at < job.graph.parameters[i].size(); ++at)
        BOOST_REQUIRE(arrays[run][job.layout.offsets[i] + at]
                      == value_at(i, run, at));
}

BOOST_AUTO_TEST_CASE(a_shard_begins_with_the_updates_and_values_of_its_slices) {
  auto options = wide_job();
  const auto first = std::make_shared<const Job>(options, 500);
  auto next = served();
  next.partitioner = "fixed:5";
  next.resume_from = write(first, sync_snapshot(*first, 6)).folder;
  const Job job{next, 500};
  const ShardStore store{job, {1, 2}, 77, -1};
  BOOST_TEST(store.newest(1) == 6u);
  BOOST_TEST(store.oldest(1) == 6u);
  BOOST_TEST(!store.holds(0));
  const auto& slice = job.plan.slices[2];
  for (uint64_t i = 0; i < slice.count; ++i) {
    BOOST_REQUIRE(store.values(2, 6)[i]
                  == value_at(slice.variable, 0, slice.offset + i));
    BOOST_REQUIRE(store.state(2, 6)[slice.count + i]
                  == value_at(slice.variable, 2, slice.offset + i));
  }
}

// PROTOCOL 11: each slice is restored with the leases that it has.
BOOST_AUTO_TEST_CASE(an_asynchronous_cut_keeps_the_leases_of_each_slice) {
  const auto options = served(Synchronisation::async);
  const auto first = std::make_shared<const Job>(options, 500);
  const auto snapshot = snapshot_of(*first, 5, [](uint32_t slice) {
    return slice == 0 ? SliceHistory{21, 20, {22}}
                      : SliceHistory{22, 20, {21, 23}};
  });
  const auto written = write(first, snapshot, first_period(options));
  BOOST_TEST(written.step == 5u);
  BOOST_TEST(!written.whole);
  auto next = options;
  next.resume_from = written.folder;
  const Job job{next, 500};
  const ShardStore store{job, {0, 1}, 77, -1};
  BOOST_TEST(store.leases(0).above() == std::vector<uint64_t>{22});
  BOOST_TEST(store.leases(1).floor() == 20u);
  BOOST_TEST(store.newest(1) == 22u);
  next.partitioner = "fixed:2";
  BOOST_CHECK_EXCEPTION((Job{next, 500}), InputError,
                        [](const auto& x) { return says(x, "--partitioner"); });
  next = served();
  next.resume_from = written.folder;
  BOOST_CHECK_EXCEPTION((Job{next, 500}), InputError,
                        [](const auto& x) { return says(x, "--async"); });
}

BOOST_AUTO_TEST_CASE(whole_asynchronous_steps_go_on_synchronously) {
  const auto options = served(Synchronisation::async);
  const auto first = std::make_shared<const Job>(options, 500);
  const auto snapshot = snapshot_of(*first, 5, [](uint32_t) {
    return SliceHistory{20, 20, {}};
  });
  auto next = served();
  next.resume_from = write(first, snapshot, first_period(options)).folder;
  const Job job{next, 500};
  const auto period = first_period(job);
  BOOST_TEST(!period.async);
  BOOST_TEST(period.step == 5u);
  BOOST_TEST(period.count_from() == 15u);
  const ShardStore store{job, {0}, 77, -1};
  BOOST_TEST(store.newest(0) == 5u);
  BOOST_TEST(store.updates(0) == 20u);
}

BOOST_AUTO_TEST_CASE(the_first_thing_that_differs_is_named) {
  const auto first = std::make_shared<const Job>(wide_job(), 500);
  const auto folder = write(first, sync_snapshot(*first, 7)).folder;
  const auto refused = [&](JobOptions options, const std::string& what) {
    options.resume_from = folder;
    BOOST_CHECK_EXCEPTION((Job{options, 500}), InputError,
                          [&](const auto& x) { return says(x, what); });
  };
  auto other = wide_job();
  other.seed = 4;
  other.global_batch = 32;
  refused(other, "--seed 4 (0 in the checkpoint)");
  other = wide_job();
  other.model = "mlp:20-8-4";
  refused(other, "--model mlp:20-8-4 (mlp:20-600-4 in the checkpoint)");
  other = wide_job();
  other.epochs = 0;
  other.steps = 6;
  refused(other, "is at step 7, after the 6 steps");
}

BOOST_AUTO_TEST_CASE(what_may_differ_is_told_and_other_data_are_not_taken) {
  const auto first = std::make_shared<const Job>(wide_job(), 500);
  auto options = wide_job();
  options.resume_from = write(first, sync_snapshot(*first, 7)).folder;
  options.learning_rate = 0.5;
  const Job job{options, 500};
  std::vector<std::string> notes;
  check_resumed(job, "0a", notes);
  BOOST_REQUIRE(notes.size() == 1u);
  BOOST_TEST(notes[0]
             == "note: goes on with --lr 0.5 (0.001 in the checkpoint)");
  BOOST_CHECK_THROW(check_resumed(job, "0b", notes), InputError);
}

BOOST_AUTO_TEST_CASE(the_newest_two_stay_and_the_one_that_the_run_began_with) {
  auto job = std::make_shared<const Job>(wide_job(), 500);
  auto options = wide_job();
  options.resume_from = write(job, sync_snapshot(*job, 1)).folder;
  job = std::make_shared<const Job>(options, 500);
  MetricRegistry metrics;
  CheckpointKeeper keeper{job, this->options(), "0a", metrics};
  for (uint64_t version = 2; version < 7; ++version)
    keeper.write(sync_snapshot(*job, version), {}, "periodic", {});
  std::vector<uint64_t> steps;
  for (const auto& found : find_checkpoints(path.string()))
    steps.push_back(found.step);
  BOOST_TEST(steps == (std::vector<uint64_t>{6, 5, 1}));
}

std::vector<uint64_t> steps_in(const fs::path& path) {
  std::vector<uint64_t> steps;
  for (const auto& found : find_checkpoints(path.string()))
    steps.push_back(found.step);
  return steps;
}

void damage(const std::string& folder) {
  std::ofstream{folder + "/manifest.json"} << "{}";
}

// A run whose checkpoints were all damaged began anew without being told to.
BOOST_AUTO_TEST_CASE(where_all_are_damaged_only_fresh_begins_anew) {
  const auto job = std::make_shared<const Job>(wide_job(), 500);
  damage(write(job, sync_snapshot(*job, 3)).folder);
  auto wish = options(true);
  BOOST_CHECK_EXCEPTION(start_checkpoints(wish), InputError, [](const auto& x) {
    return says(x, "its checkpoint is damaged") && says(x, "--resume=fresh");
  });
  BOOST_TEST(steps_in(path) == std::vector<uint64_t>{3});
  wish.fresh = true;
  auto start = start_checkpoints(wish);
  BOOST_TEST(steps_in(path) == std::vector<uint64_t>{3}); // may be refused yet
  keep_damaged_aside(start);
  BOOST_TEST(start.resume_from.empty());
  BOOST_REQUIRE(start.notes.size() == 2u);
  BOOST_TEST(start.notes[0].find("kept as " + (path / "damaged-step-").string())
             != std::string::npos);
  BOOST_TEST(steps_in(path).empty());
}

BOOST_AUTO_TEST_CASE(what_was_there_goes_when_as_many_new_ones_are_whole) {
  auto job = std::make_shared<const Job>(wide_job(), 500);
  write(job, sync_snapshot(*job, 1));
  auto options = wide_job();
  options.resume_from = write(job, sync_snapshot(*job, 2)).folder;
  job = std::make_shared<const Job>(options, 500);
  MetricRegistry metrics;
  CheckpointKeeper keeper{job, this->options(), "0a", metrics};
  using Steps = std::vector<uint64_t>;
  keeper.write(sync_snapshot(*job, 3), {}, "periodic", {});
  BOOST_TEST(steps_in(path) == (Steps{3, 2, 1}));
  keeper.write(sync_snapshot(*job, 4), {}, "periodic", {});
  BOOST_TEST(steps_in(path) == (Steps{4, 3, 2}));
}

BOOST_AUTO_TEST_CASE(who_goes_on_in_another_numeric_class_is_told) {
  using Classes = std::vector<std::string>;
  MetricRegistry metrics;
  start_checkpoints(options());
  const auto keeper_at = [&](const std::string& folder) {
    auto of_job = wide_job();
    of_job.resume_from = folder;
    return CheckpointKeeper{std::make_shared<const Job>(of_job, 500), options(),
                            "0a", metrics};
  };
  const auto written = [&](CheckpointKeeper& keeper, uint64_t step) {
    const Job job{wide_job(), 500};
    return keeper
      .write(sync_snapshot(job, step), {}, "periodic", keeper.numeric_classes())
      .folder;
  };
  auto first = keeper_at("");
  const auto in_none = written(first, 1);
  BOOST_TEST(first.computes_in("A") == "");
  BOOST_TEST(first.computes_in("A, too") == ""); // it mixes them itself
  first.resume({"A"});
  const auto in_one = written(first, 2);
  auto same = keeper_at(in_one);
  BOOST_TEST(same.computes_in("A") == "");
  BOOST_TEST(same.numeric_classes() == Classes{"A"});
  auto other = keeper_at(in_one);
  BOOST_TEST(other.computes_in("B")
             == "note: goes on in the numeric class B from steps that were "
                "computed in A: the weights will not be those of a run in one "
                "class");
  BOOST_TEST(other.computes_in("B") == "");
  BOOST_TEST(other.computes_in("A") == "");
  const auto in_both = written(other, 3);
  auto back = keeper_at(in_both);
  BOOST_TEST(back.numeric_classes() == (Classes{"B", "A"}));
  BOOST_TEST(back.computes_in("A") == "");
  auto forth = keeper_at(in_both);
  BOOST_TEST(forth.computes_in("B").find("computed in B; A: ")
             != std::string::npos);
  // The coordinator that follows one which has said so.
  auto next = keeper_at(in_one);
  next.resume({"A", "B"});
  BOOST_TEST(next.computes_in("B") == "");
  auto by_older_journal = keeper_at(in_one);
  by_older_journal.resume({});
  BOOST_TEST(by_older_journal.numeric_classes() == Classes{"A"});
  // Of an older program's checkpoint nothing is known.
  auto old = keeper_at(in_none);
  BOOST_TEST(old.computes_in("A") == "");
  BOOST_TEST(old.numeric_classes() == (Classes{"unknown", "A"}));
}

// A mount that came late brought another run's checkpoints, which rotation took
// for old ones of its own.
BOOST_AUTO_TEST_CASE(what_came_from_elsewhere_is_left_alone) {
  const auto job = std::make_shared<const Job>(wide_job(), 500);
  start_checkpoints(options());
  MetricRegistry metrics;
  CheckpointKeeper keeper{job, options(), "0a", metrics};
  MetricRegistry others;
  CheckpointKeeper stranger{job, options(), "0a", others};
  for (uint64_t version : {91, 92})
    stranger.write(sync_snapshot(*job, version), {}, "periodic", {});
  for (uint64_t version : {3, 4, 5})
    keeper.write(sync_snapshot(*job, version), {}, "periodic", {});
  BOOST_TEST(steps_in(path) == (std::vector<uint64_t>{92, 91, 5, 4}));
  fs::rename(path, path.string() + ".hidden");
  fs::create_directory(path);
  const auto outcome = keeper.write(sync_snapshot(*job, 6), {}, "periodic", {});
  BOOST_TEST(outcome.failure.find("another folder") != std::string::npos);
  BOOST_TEST(steps_in(path).empty());
  fs::remove_all(path.string() + ".hidden");
}

BOOST_AUTO_TEST_CASE(a_coordinator_that_takes_over_goes_on_in_its_folder) {
  const auto job = std::make_shared<const Job>(small_job(), 500);
  BOOST_TEST(
    start_checkpoints(options(), Starting::follows).resume_from.empty());
  const auto folder = write(job, sync_snapshot(*job, 4)).folder;
  BOOST_TEST(start_checkpoints(options(), Starting::follows).resume_from
             == folder);
  BOOST_CHECK_THROW(start_checkpoints(options()), InputError);
}

BOOST_AUTO_TEST_CASE(a_start_that_ended_as_it_wrote_its_first_one_goes_on) {
  const auto job = std::make_shared<const Job>(small_job(), 500);
  BOOST_TEST(start_checkpoints(options(), Starting::again).resume_from.empty());
  const auto first = write(job, sync_snapshot(*job, 0)).folder;
  BOOST_TEST(start_checkpoints(options(), Starting::again).resume_from
             == first);
  BOOST_CHECK_THROW(start_checkpoints(options()), InputError);
  write(job, sync_snapshot(*job, 4)); // those of a run that has begun
  BOOST_CHECK_THROW(start_checkpoints(options(), Starting::again), InputError);
}

BOOST_AUTO_TEST_CASE(a_checkpoint_is_no_folder_of_checkpoints) {
  const auto job = std::make_shared<const Job>(small_job(), 500);
  const auto folder = write(job, sync_snapshot(*job, 4)).folder;
  const auto before = fs::current_path();
  fs::current_path(folder);
  for (const auto& [named, right] :
       {std::pair<std::string, std::string>{folder, path.string()},
        {folder + "/", path.string()},
        {".", ".."},
        {"./", ".."},
        {"../" + fs::path{folder}.filename().string(), ".."}}) {
    auto wish = options(true);
    wish.dir = named;
    BOOST_CHECK_EXCEPTION(start_checkpoints(wish), InputError,
                          [&right = right](const auto& x) {
                            return std::string{x.what()}.ends_with(
                              "is a checkpoint itself; name " + right);
                          });
  }
  fs::current_path(before);
}

BOOST_AUTO_TEST_CASE(a_failure_is_told_once_and_its_end_too) {
  const auto job = std::make_shared<const Job>(wide_job(), 500);
  MetricRegistry metrics;
  CheckpointKeeper keeper{job, options(), "0a", metrics};
  const auto snapshot = sync_snapshot(*job, 3);
  std::ofstream{path} << "in the way of the folder";
  auto outcome = keeper.write(snapshot, {}, "periodic", {});
  BOOST_TEST(!outcome.failure.empty());
  BOOST_TEST(!keeper.took(outcome).empty());
  BOOST_TEST(keeper.took(keeper.write(snapshot, {}, "periodic", {})).empty());
  BOOST_TEST(keeper.written() == 0u);
  fs::remove(path);
  start_checkpoints(options());
  const auto again = keeper.took(keeper.write(snapshot, {}, "periodic", {}));
  BOOST_TEST(again.find("written again") != std::string::npos);
  BOOST_TEST(keeper.took(keeper.write(snapshot, {}, "periodic", {})).empty());
  BOOST_TEST(keeper.written() == 2u);
}

BOOST_AUTO_TEST_SUITE_END()
