#include "kernels/cpu/spread_loops.hpp"

#define LEAF "kernels/cpu/spread_leaf.inc"
#define TABLE_TYPE SpreadLoops
#define TABLE_NAME spread_loops
#define TABLE_ENTRIES look_at_spread
#include "kernels/cpu/per_isa.inc"
