#define BOOST_TEST_NO_MAIN
#include "kernels/base/steady_clock.hpp"
#include "tests/sim/campaign.hpp"
#include "tests/sim/runtime.hpp"
#include "tests/sim/seed_runs.hpp"

namespace {

troupe::SteadyClock::time_point simulated() noexcept {
  return troupe::SteadyClock::time_point{
    std::chrono::microseconds{troupe::sim::Runtime::get().now()}};
}

} // namespace

int main(int argc, char** argv) {
  troupe::SteadyClock::pass_in(simulated);
  return troupe::sim::run_program<troupe::sim::Campaign>(argc, argv);
}
