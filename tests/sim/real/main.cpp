#define BOOST_TEST_NO_MAIN
#include "kernels/base/steady_clock.hpp"
#include "tests/sim/real/campaign.hpp"
#include "tests/sim/real/world.hpp"
#include "tests/sim/seed_runs.hpp"

namespace {

troupe::SteadyClock::time_point simulated() noexcept {
  return troupe::SteadyClock::time_point{
    std::chrono::microseconds{troupe::real::World::clock()}};
}

} // namespace

/// Pipelines are the seeds from 1,000,000 on.
int main(int argc, char** argv) {
  troupe::SteadyClock::pass_in(simulated);
  return troupe::sim::run_program<troupe::real::Campaign>(argc, argv);
}
