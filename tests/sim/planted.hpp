#pragma once

#include <cstdint>

namespace troupe::sim {

/// The bug of plants.py that is there now; 0: none. Read by the copies of
/// machines that test_sim_planted is made of, and by nothing else.
extern uint32_t planted_bug;

} // namespace troupe::sim

#define PLANTED(number) (::troupe::sim::planted_bug == (number))
