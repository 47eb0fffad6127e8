#include "strategies/plan.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(plan_table)

namespace {

Plan some_plan(Synchronisation synchronisation) {
  PlanOptions options;
  options.strategy = Strategy::parameter_server;
  options.synchronisation = synchronisation;
  options.workers = 2;
  options.shards = 2;
  options.devices = {"cpu:0", "cuda:0"};
  options.processes = true;
  Plan plan;
  PlanError error;
  BOOST_REQUIRE(make_plan(
    options, {{"fc.weight", {784, 512}}, {"fc.bias", {512}}, {"scale", {}}},
    plan, error));
  return plan;
}

} // namespace

BOOST_AUTO_TEST_CASE(the_table_of_a_plan_is_stable) {
  // Scripts compare it: change it with a word in CHANGELOG.
  BOOST_TEST('\n' + to_table(some_plan(Synchronisation::sync)) == R"(
strategy         parameter_server
synchronisation  sync
reduction        at the shards, fixed tree
roles run as     processes
virtual ranks    4
global batch     64
parameters       401921

role         device  virtual ranks  slices  bytes
coordinator  cpu     -              -       -
evaluator:0  cpu:0   -              -       -
worker:0     cpu:0   0-1            -       -
worker:1     cuda:0  2-3            -       -
ps:0         cpu     -              0,2     804864
ps:1         cpu     -              1,3     802820

variable   shape    bytes    slices  owners
fc.weight  784x512  1605632  0-1     ps:0,ps:1
fc.bias    512      2048     2       ps:0
scale      scalar   4        3       ps:1
)");
}

BOOST_AUTO_TEST_CASE(workers_of_an_async_plan_take_leases) {
  auto table = to_table(some_plan(Synchronisation::async));
  BOOST_TEST(table.find("worker:0     cpu:0   leases ") != std::string::npos,
             table);
}

BOOST_AUTO_TEST_CASE(a_plan_without_variables_has_no_table_of_them) {
  auto plan = some_plan(Synchronisation::sync);
  plan.variables.clear();
  plan.slices.clear();
  for (auto& role : plan.roles)
    role.slices.clear();
  BOOST_TEST(to_table(plan).find("variable ") == std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
