#include "actors/job/slice_update.hpp"
#include "actors/role/link_terms.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(link_terms_suite)

namespace {

constexpr uint64_t mebibyte = uint64_t{1} << 20;

/// 40 MiB of parameters in slices of at most 1 MiB.
JobOptions served() {
  JobOptions job;
  job.model = "mlp:784-13000-10";
  job.strategy = Strategy::parameter_server;
  job.devices = {"cpu:0"};
  job.workers = 3;
  job.shards = 2;
  job.sample.features = {784};
  job.sample.classes = 10;
  job.samples = 100;
  return job;
}

bool takes(const MessageLinks::Terms& terms, MessageKind kind) {
  return std::ranges::find(terms.accepted, kind) != terms.accepted.end();
}

} // namespace

BOOST_AUTO_TEST_CASE(each_role_takes_what_is_meant_for_it) {
  const Job job{served()};
  const auto shard = link_terms(job, {RoleKind::shard, 0});
  const auto worker = link_terms(job, {RoleKind::worker, 0});
  BOOST_TEST(takes(shard, MessageKind::pull));
  BOOST_TEST(takes(shard, MessageKind::push));
  BOOST_TEST(takes(shard, MessageKind::lease_push));
  BOOST_TEST(takes(shard, MessageKind::row_pull));
  BOOST_TEST(!takes(shard, MessageKind::pulled));
  BOOST_TEST(takes(worker, MessageKind::pulled));
  BOOST_TEST(worker.accepted.size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_stage_takes_parameters_from_shards_alone) {
  auto options = served();
  options.strategy = Strategy::hybrid; // two pipelines of two stages
  for (const bool on_shards : {false, true}) {
    options.cut.sync_data = on_shards ? "parameter_server" : "all_reduce";
    const Job job{options};
    const auto stage = link_terms(job, {RoleKind::stage, 0});
    BOOST_TEST(takes(stage, MessageKind::stage_values));
    BOOST_TEST(stage.accepted.size() == 1u);
  }
  BOOST_TEST(takes(stage_shard_terms(), MessageKind::pulled));
  BOOST_TEST(stage_shard_terms().accepted.size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_reader_serves_workers_a_few_steps_at_a_time) {
  const Job job{served()};
  const auto reader = link_terms(job, {RoleKind::reader, 0});
  BOOST_TEST(takes(reader, MessageKind::rows_wanted));
  BOOST_TEST((reader.peers == MemberName::Kind::worker));
  const auto largest = frame_header_bytes
                       + job.sampling.max_of_step() * sizeof(uint32_t);
  BOOST_TEST(reader.window_bytes >= 2 * largest); // or credit would not return
  BOOST_TEST(reader.window_bytes < mebibyte);
}

BOOST_AUTO_TEST_CASE(a_window_does_not_grow_with_the_model) {
  const Job job{served()};
  BOOST_TEST(link_terms(job, {RoleKind::shard, 0}).window_bytes
             == 32 * mebibyte);
}

// A shard that waits for the norm of the whole gradient holds every worker's
// nodes of all its slices: what does not fit would stop the step for good.
BOOST_AUTO_TEST_CASE(a_window_holds_all_slices_where_an_update_waits_for_all) {
  auto options = served();
  options.clip_norm = 1;
  const Job job{options};
  for (uint32_t shard = 0; shard < 2; ++shard) {
    uint64_t owned = 0;
    for (const auto& slice : job.plan.slices)
      if (job.plan.owner[slice.id] == shard)
        owned += slice.count * sizeof(float) + frame_header_bytes;
    BOOST_TEST(owned > 15 * mebibyte);
    // Of 4 virtual ranks one worker has 2, which make one node, or two.
    BOOST_TEST(link_terms(job, {RoleKind::shard, shard}).window_bytes
               >= 2 * owned);
  }
}

BOOST_AUTO_TEST_CASE(slices_rank_by_the_operator_that_reads_them_first) {
  auto options = served();
  options.model = "mlp:784-600-500-10";
  const Job job{options};
  for (auto role : {RoleId{RoleKind::shard, 0}, RoleId{RoleKind::worker, 0}}) {
    const auto ranks = link_terms(job, role).ranks;
    BOOST_REQUIRE(ranks);
    BOOST_REQUIRE(ranks->size() == job.plan.slices.size());
    for (const auto& slice : job.plan.slices) {
      const auto& op = job.graph.ops.at(ranks->at(slice.id));
      BOOST_TEST((std::ranges::find(op.parameters, slice.variable)
                  != op.parameters.end()));
    }
    BOOST_TEST(ranks->front() < ranks->back());
  }
  options.priority = "off";
  BOOST_TEST(!link_terms(Job{options}, {RoleKind::shard, 0}).ranks);
  BOOST_TEST(!link_terms(Job{options}, {RoleKind::worker, 0}).ranks);
}

// Sums that come for the norms find room beside what crosses for a pass.
BOOST_AUTO_TEST_CASE(a_stages_window_holds_the_sums_of_all_slices) {
  auto options = served();
  options.strategy = Strategy::pipeline;
  options.model = "mlp:784-1300-1300-10";
  options.stages = 2;
  options.samples = options.global_batch = 20'000;
  const Job plain{options};
  options.clip_norm = 1;
  const Job clipped{options};
  uint64_t sums = 0;
  for (const auto& slice : clipped.plan.slices)
    sums += sums_of(clipped, slice, ScalarRoundKind::gradient_norm);
  BOOST_TEST(sums > 600u);
  for (uint32_t stage = 0; stage < 2; ++stage) {
    const RoleId role{RoleKind::stage, stage};
    BOOST_TEST(link_terms(clipped, role).window_bytes
               >= link_terms(plain, role).window_bytes
                    + 2 * sums * sizeof(double));
  }
}

BOOST_AUTO_TEST_CASE(a_tensor_members_window_holds_two_sums_of_another) {
  auto options = served();
  options.strategy = Strategy::tensor;
  options.model = "mlp:784-3000-3000-10";
  options.cut.virtual_slices = 4;
  options.samples = options.global_batch = 20'000;
  const Job job{options};
  const auto sum = uint64_t{3000} * job.max_rows() * sizeof(float);
  BOOST_TEST(link_terms(job, {RoleKind::tensor, 1}).window_bytes
             >= 2 * 2 * sum);
}

// Stages of other pipelines send nodes of the gradient and a share of it.
BOOST_AUTO_TEST_CASE(a_stages_window_holds_what_other_pipelines_sum_up) {
  auto options = served();
  options.strategy = Strategy::hybrid;
  options.model = "mlp:784-4000-4000-10";
  options.cut.mesh = {2, 2};
  options.virtual_ranks = 6; // 0-3 are the nodes 0-2 and 2-3 of the tree
  const Job job{options};
  for (uint32_t member = 0; member < 4; ++member) {
    uint64_t elements = 0;
    for (auto slice : job.plan.role({RoleKind::stage, member}).slices)
      elements += job.plan.slices[slice].count;
    BOOST_TEST(link_terms(job, {RoleKind::stage, member}).window_bytes
               >= 2 * 3 * (elements / 2) * sizeof(float) + max_passing_bytes);
  }
  BOOST_TEST(link_terms(job, {RoleKind::stage, 1}).window_bytes
             == link_terms(job, {RoleKind::stage, 3}).window_bytes);
}

// Tensor members of another group do the same.
BOOST_AUTO_TEST_CASE(a_tensor_members_window_holds_what_its_peers_sum_up) {
  auto options = served();
  options.strategy = Strategy::hybrid;
  options.model = "mlp:784-4000-4000-10";
  options.cut.mesh = {2, 1, 2};
  options.cut.virtual_slices = 4;
  const Job job{options};
  uint64_t elements = 0;
  for (auto slice : job.plan.role({RoleKind::tensor, 3}).slices)
    elements += job.plan.slices[slice].count;
  // A node, and a share.
  BOOST_TEST(link_terms(job, {RoleKind::tensor, 3}).window_bytes
             >= 2 * 2 * (elements / 2) * sizeof(float));
  BOOST_TEST(link_terms(job, {RoleKind::tensor, 1}).window_bytes
             == link_terms(job, {RoleKind::tensor, 3}).window_bytes);
}

// Two workers that queue differently may each send first what the other holds
// back: what passes in front of a slice must not take the room of that slice.
BOOST_AUTO_TEST_CASE(a_window_has_room_for_what_passes_in_front_of_a_slice) {
  auto options = served();
  options.virtual_ranks = 64;
  const Job job{options};
  uint64_t largest = 0;
  for (const auto& slice : job.plan.slices)
    largest = std::max(largest, slice.count * sizeof(float));
  // Of 64 virtual ranks: two nodes of each of seven levels.
  BOOST_TEST(link_terms(job, {RoleKind::shard, 0}).window_bytes / 2
             >= 14 * largest + max_passing_bytes);
}

BOOST_AUTO_TEST_SUITE_END()
