#include "actors/replica/device_home.hpp"
#include "tests/unit/actors/small_job.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(device_home)

namespace {

bool on_devices(Strategy strategy, std::vector<std::string> devices,
                OptimizerKind kind = OptimizerKind::adam, uint32_t slices = 1) {
  auto options = small_job();
  options.strategy = strategy;
  options.devices = std::move(devices);
  options.rule.kind = kind;
  options.cut.virtual_slices = slices;
  return devices_keep_variables(Job{options, *small_data().train});
}

} // namespace

// The plan alone tells, so that all members find the same.
BOOST_AUTO_TEST_CASE(devices_that_update_as_the_host_does_keep_variables) {
  using enum Strategy;
  BOOST_CHECK(on_devices(mirrored, {"cuda:0", "cuda:1"}));
  BOOST_CHECK(on_devices(mirrored, {"cuda:0", "cuda:0.1"}));
  BOOST_CHECK(on_devices(multi_worker_mirrored, {"cuda:0", "cuda:1"}));
  for (uint32_t slices : {1u, 2u})
    BOOST_CHECK(
      on_devices(mirrored, {"cuda:0", "cuda:1"}, OptimizerKind::lamb, slices));
  // One that does is enough: the others update by the same sum.
  BOOST_CHECK(on_devices(mirrored, {"cpu:0", "cuda:0"}));
  // Those of one plugin have the same bits as one another.
  BOOST_CHECK(on_devices(mirrored, {"pjrt:x.so:0", "pjrt:x.so:1"}));
  BOOST_CHECK(on_devices(multi_worker_mirrored, {"pjrt:x.so:0", "pjrt:x.so:1"},
                         OptimizerKind::lamb));
}

BOOST_AUTO_TEST_CASE(others_leave_variables_to_the_host) {
  using enum Strategy;
  BOOST_CHECK(!on_devices(mirrored, {"cpu:0", "cpu:1"}));
  BOOST_CHECK(!on_devices(central_storage, {"cuda:0", "cuda:1"}));
  // Their updates have other bits than the host's.
  BOOST_CHECK(!on_devices(mirrored, {"pjrt:x.so:0", "cpu:0"}));
  // Programs have a trust ratio for each parameter.
  BOOST_CHECK(!on_devices(mirrored, {"pjrt:x.so:0", "pjrt:x.so:1"},
                          OptimizerKind::lamb, 2));
}

BOOST_AUTO_TEST_CASE(names_of_devices_read_back) {
  for (const auto* name :
       {"cpu:3", "cuda:0", "cuda:1.2", "pjrt:a:b.so:3", "pjrt:a-b.so:0-3"})
    BOOST_CHECK_EQUAL(to_string(parse_device(name)), name);
  BOOST_CHECK_EQUAL(parse_device("pjrt:a-b.so:0-3").count, 4u);
  BOOST_CHECK_EQUAL(*parse_device("pjrt:a-b.so:0-3").file, "a-b.so");
}

BOOST_AUTO_TEST_SUITE_END()
