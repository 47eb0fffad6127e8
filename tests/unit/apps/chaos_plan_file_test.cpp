#include "actors/job/job.hpp"
#include "apps/chaos/plan_file.hpp"
#include "kernels/base/error.hpp"

#include <boost/test/unit_test.hpp>

#include <cstdio>
#include <fstream>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(chaos_plan_file)

namespace {

Plan served() {
  JobOptions options;
  options.model = "mlp:784-8-10";
  options.strategy = Strategy::parameter_server;
  options.workers = 3;
  options.shards = 2;
  options.chain = 2;
  options.data_access.readers = 1;
  options.processes = true;
  options.devices = {"cpu:0"};
  return Job{options, 64}.plan;
}

/// Two pipelines of two stages, who keep what they compute with, or do not.
Plan staged(const std::string& sync_data) {
  JobOptions options;
  options.model = "mlp:784-8-8-10";
  options.strategy = Strategy::hybrid;
  options.cut.sync_data = sync_data;
  options.processes = true;
  options.devices = {"cpu:0"};
  return Job{options, 64}.plan;
}

/// A file that goes with the test.
struct File {
  explicit File(const std::string& text) { std::ofstream{path} << text; }
  ~File() { std::remove(path.c_str()); }
  std::string path = "chaos_plan_file_test.toml";
};

std::vector<ChaosStrike> read(const std::string& text) {
  const File file{text};
  return read_chaos_plan(file.path, served());
}

/// What a plan is refused for, from its line on.
std::string refusal(const std::string& text, const Plan& plan = served()) {
  const File file{text};
  try {
    read_chaos_plan(file.path, plan);
  } catch (const UsageError& mistake) {
    const std::string what = mistake.what();
    BOOST_TEST(what.rfind(file.path + ':', 0) == 0u, what);
    return what.substr(file.path.size() + 1);
  }
  return "nothing";
}

} // namespace

BOOST_AUTO_TEST_CASE(a_plan_says_who_is_struck_by_what_where_and_when) {
  const auto strikes = read(R"(
[[strike]]
after_steps = 20
[[strike.fault]]
role = "worker:1"
phase = "push"
passes = 2

[[strike]]
at_step = 100
[[strike.fault]]
role = "ps:3"
kind = "stop"
phase = "forward"
ms = 250
[[strike.fault]]
role = "coordinator"

[[strike]]
[[strike.fault]]
role = "ps:0"
phases = ["at-once", "copy"]
)");
  BOOST_TEST_REQUIRE(strikes.size() == 3u);
  BOOST_TEST(strikes[0].steps_before == 20u);
  const auto& kill = strikes[0].wishes.front();
  BOOST_TEST((kill.role == RoleId{RoleKind::worker, 1}));
  BOOST_TEST((kill.kind == ChaosKind::kill));
  BOOST_TEST((kill.phases == std::vector{StepPhase::push}));
  BOOST_TEST(kill.after == 2u);
  BOOST_TEST(strikes[1].at_step.value() == 100u);
  BOOST_TEST_REQUIRE(strikes[1].wishes.size() == 2u);
  BOOST_TEST((strikes[1].wishes[0].kind == ChaosKind::stop));
  BOOST_TEST(strikes[1].wishes[0].amount == 250u);
  BOOST_TEST((strikes[1].wishes[1].phases == std::vector{StepPhase::at_once}));
  BOOST_TEST(strikes[2].faults() == 2u);
  const auto reader = read("[[strike]]\n[[strike.fault]]\nrole = "
                           "\"reader:0\"\nkind = \"stop\"\nms = 2000\n");
  BOOST_TEST((reader[0].wishes[0].role == RoleId{RoleKind::reader, 0}));
  const auto errs = read("[[strike]]\n[[strike.fault]]\nrole = \"worker:0\"\n"
                         "kind = \"nan\"\n");
  BOOST_TEST((errs[0].wishes[0].phases == std::vector{StepPhase::compute}));
}

BOOST_AUTO_TEST_CASE(what_is_drawn_is_written_and_read_back) {
  std::vector<ChaosKind> kinds;
  for (uint32_t i = 0; i < chaos_kinds; ++i)
    kinds.push_back(static_cast<ChaosKind>(i));
  ChaosPlan drawn{served(), 7, kinds};
  std::vector<ChaosStrike> strikes;
  for (int i = 0; i < 200; ++i)
    strikes.push_back(drawn.next(9));
  const auto text = to_toml(strikes, 7);
  const auto again = read(text);
  BOOST_TEST(again.size() == strikes.size());
  BOOST_TEST(to_toml(again, 7) == text);
}

BOOST_AUTO_TEST_CASE(a_stage_pulls_beside_shards_and_reduces_elsewhere) {
  const auto struck = [](const std::string& phase) {
    return "[[strike]]\n[[strike.fault]]\nrole = \"stage:1\"\nphase = \""
           + phase + "\"\n";
  };
  const auto on_shards = staged("parameter_server");
  const auto kept = staged("all_reduce");
  BOOST_TEST(refusal(struck("pull"), on_shards) == "nothing");
  BOOST_TEST(refusal(struck("reduce"), kept) == "nothing");
  BOOST_TEST(refusal(struck("pull"), kept)
             == "4:9: stage:1 has no phase pull; use at-once, compute, push, "
                "reduce, seal");
  BOOST_TEST(refusal(struck("reduce"), on_shards)
             == "4:9: stage:1 has no phase reduce; use at-once, pull, compute, "
                "push, seal");
}

BOOST_AUTO_TEST_CASE(mistakes_are_told_with_line_and_column) {
  const std::string head = "[[strike]]\n[[strike.fault]]\nrole = \"ps:1\"\n";
  BOOST_TEST(refusal("[[strike]\n").rfind("1:", 0) == 0u);
  BOOST_TEST(refusal("strikes = 1\n")
             == "1:11: unknown key strikes; did you mean strike?");
  BOOST_TEST(refusal("").find("expected [[strike]], at least one")
             != std::string::npos);
  BOOST_TEST(refusal("[[strike]]\nafter_steps = -1\n")
             == "2:15: after_steps: expected a whole number from 0 to "
                "1099511627776");
  BOOST_TEST(refusal("[[strike]]\n[[strike.fault]]\nphase = \"push\"\n")
               .find("2:1: a fault needs its role")
             == 0u);
  BOOST_TEST(refusal("[[strike]]\n[[strike.fault]]\nrole = \"worker:3\"\n")
             == "3:8: worker:3 is no role of the job");
  BOOST_TEST(refusal(head + "phase = \"compute\"\n")
             == "4:9: ps:1 has no phase compute; use at-once, pull, reduce, "
                "forward, seal, copy");
  BOOST_TEST(refusal(head + "kind = \"burn\"\n")
             == "4:8: kind burn: unknown; use kill, stop, slow, cut, nan, "
                "device, full-disk, cut-control, slow-disk, memory-limit, "
                "stall, one-way, throttle, flip, slow-control, signal-all, "
                "unreadable, host-kill, host-cut, host-slow");
  BOOST_TEST(refusal(head + "kind = \"nan\"\nphase = \"reduce\"\n")
               .find("nan does not strike ps:1 in reduce; it strikes workers "
                     "in compute")
             != std::string::npos);
  BOOST_TEST(refusal(head + "kind = \"full-disk\"\nms = 9\n")
               .find("it strikes the coordinator at-once")
             != std::string::npos);
  BOOST_TEST(
    refusal(head + "kind = \"flip\"\nphase = \"seal\"\n")
      .find("flip does not strike ps:1 in seal, but at-once; leave out its")
    != std::string::npos);
  BOOST_TEST(refusal("[[strike]]\n[[strike.fault]]\nrole = \"coordinator\"\n"
                     "kind = \"cut-control\"\n")
               .find("the coordinator may be killed, stopped and have a full "
                     "disk")
             != std::string::npos);
  BOOST_TEST(refusal("[[strike]]\n[[strike.fault]]\nrole = \"reader:0\"\n"
                     "kind = \"cut\"\n")
               .find("cut does not strike reader:0 in at-once; a reader may be "
                     "killed and stopped")
             != std::string::npos);
  BOOST_TEST(refusal(head + "kind = \"stop\"\n").find("add ms")
             != std::string::npos);
  BOOST_TEST(refusal(head + "ms = 10\n").rfind("4:6: ms:", 0) == 0u);
  BOOST_TEST(refusal(head + "link = 1\n").rfind("4:8: link:", 0) == 0u);
  BOOST_TEST(refusal(head + "phase = \"pull\"\nphases = [\"pull\"]\n")
               .find("exclude each other")
             != std::string::npos);
  BOOST_TEST(refusal(head + "kind = \"cut\"\nphases = [\"pull\", \"seal\"]\n")
               .find("only who is killed")
             != std::string::npos);
  const std::string ends = "[[strike.fault]]\nrole = \"coordinator\"\n"
                           "kind = \"signal-all\"\nms = 9\n";
  BOOST_TEST(refusal("[[strike]]\n" + ends + ends)
               .find("signal-all ends the job; give it a strike of its own")
             != std::string::npos);
  BOOST_TEST(refusal(head + "kind = \"unreadable\"\nms = 9\n")
               .find("it strikes the coordinator at-once")
             != std::string::npos);
  BOOST_TEST(refusal("[[strike]]\nat_step = 1\nafter_steps = 1\n")
               .find("exclude each other")
             != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
