#include "apps/doctor/diagnosis.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;
using Kind = Finding::Kind;

BOOST_TEST_DONT_PRINT_LOG_VALUE(Finding::Kind)

namespace {

/// Four workers that compute 10 ms and wait 2, and a shard.
JobView healthy() {
  JobView job;
  job.steps_per_second = 80;
  for (int i = 0; i < 4; ++i) {
    RoleView worker;
    worker.role = "worker:" + std::to_string(i);
    worker.compute_ms = 10;
    worker.push_ms = 2;
    job.roles.push_back(worker);
  }
  RoleView shard;
  shard.role = "ps:0";
  shard.busy = 0.2;
  job.roles.push_back(shard);
  return job;
}

Finding found(const JobView& job) {
  return diagnose(job, "127.0.0.1:9");
}

bool has(const std::string& text, const char* word) {
  return text.find(word) != std::string::npos;
}

} // namespace

BOOST_AUTO_TEST_SUITE(diagnosis)

BOOST_AUTO_TEST_CASE(a_healthy_job_is_told_where_its_time_goes) {
  const auto finding = found(healthy());
  BOOST_TEST(finding.kind == Kind::good);
  BOOST_TEST(has(finding.found, "10.0 ms a step"));
  BOOST_TEST(finding.remedy.empty());
}

BOOST_AUTO_TEST_CASE(a_worker_that_waits_for_samples_is_held_up_by_its_data) {
  auto job = healthy();
  job.roles[2].compute_ms = 45;
  job.roles[2].data_ms = 36;
  auto finding = found(job);
  BOOST_TEST(finding.kind == Kind::wrong);
  BOOST_TEST(finding.what == job.roles[2].role);
  BOOST_TEST(has(finding.found, "waits 36.0 of the 45.0 ms"));
  BOOST_TEST(!has(finding.found, "decode"));
  job.roles[2].decode_ms = 30;
  finding = found(job);
  BOOST_TEST(has(finding.found, "30.0 of them to decode them"));
  BOOST_TEST(has(finding.remedy, "--readers"));
  for (double busy : {0.4, 0.97}) {
    RoleView reader;
    reader.role = "reader:" + std::to_string(job.roles.size());
    reader.busy = busy;
    job.roles.push_back(reader);
  }
  finding = found(job);
  BOOST_TEST(finding.what == job.roles.back().role);
  BOOST_TEST(has(finding.found, "is busy for 97% of the time"));
  BOOST_TEST(has(finding.remedy, "more readers"));
  for (auto& role : job.roles)
    if (role.role.starts_with("reader"))
      role.busy = 0.02;
  finding = found(job);
  BOOST_TEST(finding.what == job.roles[2].role);
  BOOST_TEST(has(finding.found, "no reader is busy for long"));
  BOOST_TEST(has(finding.remedy, "--data-cache"));
  job.roles[2].compute_ms = 10; // it reads ahead: nobody waits
  job.roles[2].data_ms = 0.1;
  BOOST_TEST(found(job).kind == Kind::good);
}

// Symptom: a stopped reader, whose samples others serve two seconds later, was
// not seen between two steps; a worker was named, or the other reader.
BOOST_AUTO_TEST_CASE(a_reader_that_owes_samples_again_and_again_is_named) {
  auto job = healthy();
  job.roles[2].compute_ms = 2'100;
  job.roles[2].data_ms = 2'080;
  for (const auto* name : {"reader:0", "reader:1"}) {
    RoleView reader;
    reader.role = name;
    reader.busy = 0.01;
    job.roles.push_back(reader);
  }
  auto& owing = job.roles.back();
  owing.owed_samples = 1; // once is nothing
  BOOST_TEST(found(job).what == "worker:2");
  owing.owed_samples = 3;
  BOOST_TEST(found(job).what == "reader:1");
  BOOST_TEST(has(found(job).remedy, "kill -CONT"));
  owing.busy = 0.9; // by reading
  BOOST_TEST(has(found(job).found, "is busy for 90%"));
}

/// With a link each way between the shard and each worker, which sends for a
/// third of the time.
JobView cabled() {
  auto job = healthy();
  const auto link_to = [](std::string peer) {
    LinkView link;
    link.peer = std::move(peer);
    link.busy = 0.3;
    link.delivered = 3e6;
    return link;
  };
  for (auto& role : job.roles)
    if (role.role.starts_with("worker")) {
      role.links = {link_to("ps:0")};
      job.roles.back().links.push_back(link_to(role.role));
    }
  return job;
}

// Symptom: of a worker whose host lost the way to a shard's, the shard was
// named; then any byte that waited for a link was taken for a cut.
BOOST_AUTO_TEST_CASE(bytes_that_do_not_get_through_are_a_link_s) {
  auto job = cabled();
  job.late = "ps:0 has not applied it";
  job.late_s = 3;
  job.roles[1].queued = 80;
  BOOST_TEST(found(job).what == "ps:0");
  BOOST_TEST(!has(found(job).found, "acknowledged"));
  job.roles[1].links[0].stalled_s = 0.75; // what was sent again was lost, too
  BOOST_TEST(!has(found(job).found, "acknowledged"));
  job.roles[1].links[0].stalled_s = 2.1;
  BOOST_TEST(found(job).what == "worker:1");
  BOOST_TEST(has(found(job).found, "nothing that worker:1 sends to ps:0 has "
                                   "been acknowledged for 2.1 s"));
  // The shard's answers are not acknowledged, either.
  job.roles.back().links[1].stalled_s = 2.4;
  BOOST_TEST(found(job).what == "worker:1");
  BOOST_TEST(has(found(job).found, "nothing that ps:0 sends to worker:1"));
  // A shard that reaches nobody is to blame rather than each worker.
  for (auto& role : job.roles)
    for (auto& link : role.links)
      link.stalled_s = 2;
  BOOST_TEST(found(job).what == "ps:0");
  // Who says nothing takes nothing.
  job.late = "ps:0 is silent for 3.0 s";
  BOOST_TEST(has(found(job).found, "is silent"));
}

BOOST_AUTO_TEST_CASE(a_link_of_half_the_rate_is_named) {
  auto job = cabled();
  BOOST_TEST(found(job).kind == Kind::good);
  for (auto* link : {&job.roles[2].links[0], &job.roles.back().links[2]}) {
    link->busy = 0.6;
    link->delivered = 2.7e6;
  }
  auto finding = found(job);
  BOOST_TEST(finding.kind == Kind::wrong);
  BOOST_TEST(finding.what == "worker:2");
  BOOST_TEST(has(finding.found, "its link is slow"));
  BOOST_TEST(has(finding.found, "sends for 60% of the time"));
  for (auto* link : {&job.roles[2].links[0], &job.roles.back().links[2]})
    link->busy = 0.35;
  BOOST_TEST(found(job).kind == Kind::good);
  for (auto* link : {&job.roles[2].links[0], &job.roles.back().links[2]}) {
    link->busy = 0.1; // nobody waits for that
    link->delivered = 0.3e6;
  }
  BOOST_TEST(found(job).kind == Kind::good);
}

// Symptom: nothing was told of an all-reduce of three one of which had half the
// rate: four of the six links are its own.
BOOST_AUTO_TEST_CASE(a_member_of_half_the_rate_is_named_in_a_small_group) {
  auto job = healthy();
  job.roles.resize(3);
  for (size_t i = 0; i < 3; ++i) {
    job.roles[i].role = "worker:" + std::to_string(i);
    job.roles[i].links.clear();
    for (size_t peer = 0; peer < 3; ++peer)
      if (peer != i) {
        LinkView link;
        link.peer = "worker:" + std::to_string(peer);
        link.busy = 0.4;
        link.delivered = i == 1 || peer == 1 ? 1e6 : 1.9e6;
        job.roles[i].links.push_back(link);
      }
  }
  auto finding = found(job);
  BOOST_TEST(finding.kind == Kind::wrong);
  BOOST_TEST(finding.what == "worker:1");
  BOOST_TEST(has(finding.found, "its link is slow"));
  for (auto& role : job.roles)
    for (auto& link : role.links)
      link.delivered = 1e6;
  BOOST_TEST(!has(found(job).found, "its link is slow"));
}

BOOST_AUTO_TEST_CASE(a_checkpoint_that_takes_far_longer_than_others_is_named) {
  auto job = healthy();
  job.checkpoint_s = 3;
  BOOST_TEST(found(job).kind == Kind::good); // the first one
  job.usual_checkpoint_s = 0.1;
  const auto finding = found(job);
  BOOST_TEST(finding.kind == Kind::wrong);
  BOOST_TEST(finding.what == "coordinator");
  BOOST_TEST(has(finding.found, "a checkpoint for 3.0 s, which took 0.1 s"));
  BOOST_TEST(has(finding.remedy, "--checkpoint-dir"));
  job.usual_checkpoint_s = 0.8;
  BOOST_TEST(found(job).kind == Kind::good);
}

// Symptom: on a busy machine a step that was late for a moment was a culprit's.
BOOST_AUTO_TEST_CASE(a_step_that_is_late_for_a_moment_has_no_culprit) {
  auto job = healthy();
  job.late = "worker:1 computes";
  job.late_s = 0.4;
  BOOST_TEST(found(job).kind == Kind::good);
  BOOST_TEST(is_undecided(job));
  BOOST_TEST(!diagnose_at_once(job));
  job.late_s = 3;
  BOOST_TEST(found(job).what == "worker:1");
  BOOST_TEST(!is_undecided(job));
}

BOOST_AUTO_TEST_CASE(who_was_late_a_moment_ago_is_named_while_no_step_ends) {
  auto job = healthy();
  job.steps_per_second = 0;
  BOOST_TEST(found(job).what == "job");
  job.was_late = "reader:1 is silent for 10.5 s";
  BOOST_TEST(found(job).what == "reader:1");
  job.steps_per_second = 80;
  BOOST_TEST(found(job).kind == Kind::good);
}

BOOST_AUTO_TEST_CASE(a_reader_that_holds_up_a_step_is_asked_about) {
  auto job = healthy();
  job.late = "reader:0 has not served samples";
  job.late_s = 3;
  const auto finding = found(job);
  BOOST_TEST(finding.what == "reader:0");
  BOOST_TEST(has(finding.remedy, "troupe bench data"));
}

BOOST_AUTO_TEST_CASE(who_is_left_out_comes_first) {
  auto job = healthy();
  job.late = "worker:1 computes";
  job.late_s = 3;
  job.roles[3].left_out = true;
  job.roles[3].tags = {
    "left out: silent for 3.1 s, more than the 3.0 s that may be"};
  BOOST_TEST(has(found(job).remedy, "its host hung or cut off"));
  job.roles[3].tags = {"left out: its links to ps:0 are dead"};
  const auto finding = found(job);
  BOOST_TEST(finding.kind == Kind::wrong);
  BOOST_TEST(finding.what == "worker:3");
  BOOST_TEST(has(finding.found, "are dead"));
  BOOST_TEST(has(finding.remedy, "--coordinator"));
}

BOOST_AUTO_TEST_CASE(a_late_step_has_a_culprit) {
  auto job = healthy();
  job.late = "worker:1 is silent for 3.0 s";
  job.late_s = 3;
  auto finding = found(job);
  BOOST_TEST(finding.what == "worker:1");
  BOOST_TEST(has(finding.found, "silent for 3.0 s"));
  BOOST_TEST(has(finding.remedy, "SIGCONT") == false);
  BOOST_TEST(has(finding.remedy, "kill -CONT"));
  job.late = "ps:1 is not there";
  finding = found(job);
  BOOST_TEST(finding.what == "ps:1");
  BOOST_TEST(has(finding.remedy, "start it again"));
}

BOOST_AUTO_TEST_CASE(a_straggler_is_named_with_its_factor) {
  auto job = healthy();
  job.roles[2].compute_ms = 40;
  auto finding = found(job);
  BOOST_TEST(finding.kind == Kind::wrong);
  BOOST_TEST(finding.what == "worker:2");
  BOOST_TEST(has(finding.found, "4.0 times"));
  job.roles[2].compute_ms = 20; // it has a virtual rank more
  BOOST_TEST(found(job).kind == Kind::good);
  // Symptom: on cores that had too much to do, of steps that took far longer.
  job.roles[2].compute_ms = 40;
  job.steps_per_second = 8;
  BOOST_TEST(found(job).kind != Kind::wrong);
}

BOOST_AUTO_TEST_CASE(one_of_two_is_held_against_the_other) {
  auto job = healthy();
  job.roles.erase(job.roles.begin(), job.roles.begin() + 2);
  job.roles[0].compute_ms = 30;
  BOOST_TEST(found(job).what == "worker:2");
}

// Its computing is as fast as the others'; reading data, or a slow link, is
// not.
BOOST_AUTO_TEST_CASE(who_never_waits_while_all_others_do_is_named) {
  auto job = healthy();
  for (int i = 0; i < 4; ++i)
    job.roles[static_cast<size_t>(i)].push_ms = i == 2 ? 0.7 : 62;
  const auto finding = found(job);
  BOOST_TEST(finding.kind == Kind::wrong);
  BOOST_TEST(finding.what == "worker:2");
  BOOST_TEST(has(finding.found, "62.0 ms a step for pushes"));
  job.roles[2].compute_ms = 20; // a virtual rank more, which explains it
  for (int i = 0; i < 4; ++i)
    job.roles[static_cast<size_t>(i)].push_ms = i == 2 ? 0.7 : 11;
  BOOST_TEST(found(job).kind != Kind::wrong);
}

BOOST_AUTO_TEST_CASE(a_full_shard_and_a_slow_exchange_are_told_apart) {
  auto job = healthy();
  job.roles[4].busy = 0.95;
  auto finding = found(job);
  BOOST_TEST(finding.what == "ps:0");
  BOOST_TEST(has(finding.remedy, "rebalance"));
  job.roles[4].busy = 0.3;
  job.roles[1].push_ms = 30;
  job.roles[1].queued = 5e6;
  finding = found(job);
  BOOST_TEST(finding.kind == Kind::note);
  BOOST_TEST(finding.what == "exchange");
  BOOST_TEST(has(finding.found, "30.0 ms for pushes"));
  BOOST_TEST(has(finding.found, "4.8 MiB wait for links of worker:1"));
}

BOOST_AUTO_TEST_CASE(a_job_that_stands_without_a_known_reason_is_said_to) {
  auto job = healthy();
  job.steps_per_second = 0;
  const auto finding = found(job);
  BOOST_TEST(finding.kind == Kind::wrong);
  BOOST_TEST(has(finding.remedy, "troupe status 127.0.0.1:9"));
}

BOOST_AUTO_TEST_CASE(findings_stand_in_columns) {
  BOOST_TEST(in_lines({{Kind::good, "clock", "is kept", ""},
                       {Kind::wrong, "open files", "20", "raise it"}})
             == "ok     clock       is kept\n"
                "WRONG  open files  20\n"
                "                   -> raise it\n");
}

BOOST_AUTO_TEST_SUITE_END()
