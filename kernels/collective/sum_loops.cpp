#include "kernels/collective/sum_loops.hpp"

#include "kernels/collective/sum_program.hpp"

#define LEAF "kernels/collective/sum_leaf.inc"
#define TABLE_TYPE SumLoops
#define TABLE_NAME sum_loops
#define TABLE_ENTRIES sum, sum_past_cache, copy_past_cache
#include "kernels/cpu/per_isa.inc"
