#include "strategies/waits_for.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(waits)

using Stage = StepView::Stage;

namespace {

constexpr RoleId coordinator{RoleKind::coordinator, 0};
constexpr RoleId worker0{RoleKind::worker, 0};
constexpr RoleId worker1{RoleKind::worker, 1};
constexpr RoleId shard0{RoleKind::shard, 0};
constexpr RoleId reader0{RoleKind::reader, 0};
constexpr RoleId reader1{RoleKind::reader, 1};

/// Two workers and a shard; worker:0 has reported, worker:1 computes.
StepView served() {
  StepView view;
  view.stage = Stage::active;
  view.served = true;
  view.age_ms = 3'100;
  view.usual_ms = 20;
  view.members = {{worker0, false, true, false, 100},
                  {worker1, false, false, false, 100},
                  {shard0, false, false, false, 100}};
  return view;
}

} // namespace

BOOST_AUTO_TEST_CASE(all_wait_for_the_worker_that_still_computes) {
  const auto found = waits_for(served());
  BOOST_TEST((found.waits
              == std::vector<Wait>{{worker0, shard0, "the next version"},
                                   {shard0, worker1, "its gradient"}}));
  BOOST_TEST(found.late);
  BOOST_TEST((found.culprits == std::vector<RoleId>{worker1}));
  BOOST_TEST(found.reason == "worker:1 computes");
}

BOOST_AUTO_TEST_CASE(a_stage_that_pulls_computes_and_keeps_nothing) {
  constexpr RoleId stage0{RoleKind::stage, 0};
  constexpr RoleId stage1{RoleKind::stage, 1};
  auto view = served();
  view.members[0].role = stage0;
  view.members[1].role = stage1;
  view.members[0].pulls = view.members[1].pulls = true;
  const auto found = waits_for(view);
  BOOST_TEST((found.waits
              == std::vector<Wait>{{stage0, shard0, "the next version"},
                                   {shard0, stage1, "its gradient"}}));
  BOOST_TEST(found.reason == "stage:1 computes");
}

namespace {

/// Two pipelines of two stages of two tensor members each, and a shard: their
/// last ones have reported.
StepView meshed() {
  auto view = served();
  const auto shard = view.members.back();
  view.members.clear();
  for (uint32_t i = 0; i < 8; ++i) {
    StepView::Member member;
    member.role = {RoleKind::tensor, i};
    member.silent_ms = 100;
    member.pulls = member.computed = true;
    member.goes_back = i % 4 < 2;
    view.members.push_back(member);
  }
  view.members.push_back(shard);
  return view;
}

} // namespace

// Symptom: of a member of a last stage that was stopped before it had pushed,
// all members of the stages before were named; and where one pipeline was late,
// stages of all.
BOOST_AUTO_TEST_CASE(a_late_one_among_pipelines_of_tensor_members_is_named) {
  auto view = meshed();
  BOOST_TEST(waits_for(view).reason
             == "tensor:0 computes, tensor:1 computes, tensor:4 computes, "
                "tensor:5 computes");
  view.members[6].silent_ms = 3'050;
  BOOST_TEST(waits_for(view).reason == "tensor:6 is silent for 3.0 s");
  view.members[6].silent_ms = 100;
  view.members[1].silent_ms = 3'050;
  BOOST_TEST(waits_for(view).reason == "tensor:1 is silent for 3.0 s");
  view.members[1].silent_ms = 100;
  for (uint32_t i = 0; i < 4; ++i)
    view.members[i].computed = false;
  BOOST_TEST(waits_for(view).reason
             == "tensor:0 computes, tensor:1 computes, tensor:2 computes, "
                "tensor:3 computes");
  view.members[2].silent_ms = 3'050;
  BOOST_TEST(waits_for(view).reason == "tensor:2 is silent for 3.0 s");
}

BOOST_AUTO_TEST_CASE(a_step_as_long_as_usual_has_waits_and_no_culprit) {
  auto view = served();
  view.usual_ms = 1'000;
  const auto found = waits_for(view);
  BOOST_TEST(!found.late);
  BOOST_TEST(found.waits.size() == 2u);
  BOOST_TEST(found.culprits.empty());
}

BOOST_AUTO_TEST_CASE(a_shard_is_the_culprit_when_all_gradients_are_there) {
  auto view = served();
  view.members[1].computed = true;
  const auto found = waits_for(view);
  BOOST_TEST((found.culprits == std::vector<RoleId>{shard0}));
  BOOST_TEST(found.reason == "ps:0 has not applied it");
  BOOST_TEST((found.waits
              == std::vector<Wait>{{worker0, shard0, "the next version"},
                                   {worker1, shard0, "the next version"}}));
}

BOOST_AUTO_TEST_CASE(who_is_silent_is_blamed_before_who_is_at_work) {
  auto view = served();
  view.members[0].computed = false;
  view.members[1].silent_ms = 3'050;
  const auto found = waits_for(view);
  BOOST_TEST((found.culprits == std::vector<RoleId>{worker1}));
  BOOST_TEST(found.reason == "worker:1 is silent for 3.0 s");
}

// Symptom: of a worker that was stopped while its gradients were on their way
// out, the shard was named that waited for them.
BOOST_AUTO_TEST_CASE(a_silent_worker_owes_what_it_has_computed) {
  auto view = served();
  view.members[1].computed = true;
  view.members[1].silent_ms = 3'050;
  const auto found = waits_for(view);
  BOOST_TEST((found.culprits == std::vector<RoleId>{worker1}));
  BOOST_TEST(found.reason == "worker:1 is silent for 3.0 s");
  BOOST_TEST((found.waits
              == std::vector<Wait>{{worker0, shard0, "the next version"},
                                   {shard0, worker1, "its gradient"}}));
  view.members[2].silent_ms = 3'050;
  BOOST_TEST((waits_for(view).culprits == std::vector<RoleId>{shard0}));
}

// Symptom: of a stopped shard, whose workers waited for its parameters before
// they computed, the workers were named.
BOOST_AUTO_TEST_CASE(a_silent_shard_is_blamed_before_workers_that_compute) {
  auto view = served();
  view.members[0].computed = false;
  view.members[2].silent_ms = 3'050;
  auto found = waits_for(view);
  BOOST_TEST((found.culprits == std::vector<RoleId>{shard0}));
  BOOST_TEST(found.reason == "ps:0 is silent for 3.0 s");
  BOOST_TEST((found.waits
              == std::vector<Wait>{{worker0, shard0, "the next version"},
                                   {worker1, shard0, "the next version"}}));
  view.members[1].silent_ms = 3'050; // who computes and is silent, too
  found = waits_for(view);
  BOOST_TEST((found.culprits == std::vector<RoleId>{worker1}));
}

BOOST_AUTO_TEST_CASE(replicas_wait_for_the_one_that_is_silent) {
  auto view = served();
  view.served = false;
  view.members.pop_back();
  view.members[0].computed = false; // they report when the step is over
  auto found = waits_for(view);
  BOOST_TEST(found.waits.empty());
  BOOST_TEST(found.culprits.empty());
  view.members[1].silent_ms = 1'200;
  found = waits_for(view);
  BOOST_TEST(
    (found.waits == std::vector<Wait>{{worker0, worker1, "its gradient"}}));
  BOOST_TEST((found.culprits == std::vector<RoleId>{worker1}));
}

BOOST_AUTO_TEST_CASE(who_gives_signs_more_seldom_is_not_blamed_earlier) {
  auto view = served();
  view.sign_ms = 1'250;
  view.members[1].silent_ms = 4'900;
  BOOST_TEST(waits_for(view).reason == "worker:1 computes");
  view.members[1].silent_ms = 5'000;
  BOOST_TEST(waits_for(view).reason == "worker:1 is silent for 5.0 s");
}

BOOST_AUTO_TEST_CASE(an_epoch_waits_for_seals_and_for_who_is_absent) {
  auto view = served();
  view.stage = Stage::sealing;
  view.members[2].seals = true;
  auto found = waits_for(view);
  BOOST_TEST(
    (found.waits == std::vector<Wait>{{coordinator, shard0, "its seal"}}));
  BOOST_TEST(found.reason == "ps:0 has not sealed");
  view.stage = Stage::forming;
  view.absent = {shard0};
  view.members.pop_back();
  found = waits_for(view);
  BOOST_TEST(
    (found.waits == std::vector<Wait>{{coordinator, shard0, "its return"}}));
  BOOST_TEST(found.reason == "ps:0 is not there");
}

// Symptom: "worker:1 computes", and the reader that stood still was not named.
BOOST_AUTO_TEST_CASE(who_waits_for_samples_is_held_up_by_its_reader) {
  for (bool served_ : {true, false}) {
    auto view = served();
    view.served = served_;
    view.members[1].awaits_samples = true;
    view.members[1].readers = {reader1};
    view.readers = {{reader0, 100}, {reader1, 100}};
    auto found = waits_for(view);
    BOOST_TEST((found.culprits == std::vector<RoleId>{reader1}));
    BOOST_TEST(found.reason == "reader:1 has not served samples");
    BOOST_TEST((found.waits.back() == Wait{worker1, reader1, "samples"}));
    view.readers[1].silent_ms = 1'300;
    BOOST_TEST(waits_for(view).reason == "reader:1 is silent for 1.3 s");
    // Symptom: once another one was asked in its place, that was named.
    view.members[1].readers = {reader0};
    BOOST_TEST(waits_for(view).reason == "reader:1 is silent for 1.3 s");
    view.members[1].readers = {reader1};
    view.readers.pop_back();
    view.absent_readers = {reader1};
    BOOST_TEST(waits_for(view).reason == "reader:1 is not there");
  }
}

BOOST_AUTO_TEST_CASE(who_could_ask_nobody_waits_for_readers_that_are_absent) {
  auto view = served();
  view.members[1].awaits_samples = true;
  view.absent_readers = {reader0};
  auto found = waits_for(view);
  BOOST_TEST((found.waits.back() == Wait{worker1, reader0, "samples"}));
  BOOST_TEST(found.reason == "reader:0 is not there");
  view.absent_readers.clear();
  view.readers = {{reader0, 100}};
  found = waits_for(view);
  BOOST_TEST((found.culprits == std::vector<RoleId>{worker1}));
  BOOST_TEST(found.reason == "worker:1 waits for samples");
  view.members[1].silent_ms = 2'000; // what it said last is no longer known
  BOOST_TEST(waits_for(view).reason == "worker:1 is silent for 2.0 s");
}

BOOST_AUTO_TEST_CASE(nobody_waits_for_a_reader_that_the_job_does_not_know) {
  auto view = served();
  view.members[1].awaits_samples = true;
  view.members[1].readers = {{RoleKind::reader, 7}, shard0, reader0};
  view.readers = {{reader0, 100}};
  BOOST_TEST(waits_for(view).reason == "reader:0 has not served samples");
  view.members[1].readers.pop_back();
  const auto found = waits_for(view);
  BOOST_TEST(found.reason == "worker:1 waits for samples");
  BOOST_TEST((found.waits.back() == Wait{shard0, worker1, "its gradient"}));
}

BOOST_AUTO_TEST_CASE(who_was_done_early_blames_no_reader) {
  auto view = served();
  view.members[0].awaits_samples = true; // of the next step
  view.members[0].readers = {reader0};
  view.readers = {{reader0, 100}};
  const auto found = waits_for(view);
  BOOST_TEST((found.waits.back() == Wait{worker0, reader0, "samples"}));
  BOOST_TEST((found.culprits == std::vector<RoleId>{worker1}));
  BOOST_TEST(found.reason == "worker:1 computes");
}

BOOST_AUTO_TEST_CASE(leases_wait_for_samples_alone) {
  auto view = served();
  view.leased = true;
  view.members[0].awaits_samples = true;
  view.members[0].readers = {reader0};
  view.readers = {{reader0, 100}};
  const auto found = waits_for(view);
  BOOST_TEST((found.waits == std::vector<Wait>{{worker0, reader0, "samples"}}));
  BOOST_TEST((found.culprits == std::vector<RoleId>{reader0}));
}

BOOST_AUTO_TEST_CASE(leases_wait_for_nobody) {
  auto view = served();
  view.leased = true;
  const auto found = waits_for(view);
  BOOST_TEST(found.waits.empty());
  BOOST_TEST(found.culprits.empty());
}

BOOST_AUTO_TEST_SUITE_END()
