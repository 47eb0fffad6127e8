#include "kernels/collective/sum_loops.hpp"

#include <immintrin.h>

#define LEAF "kernels/collective/sum_leaf.inc"
#define TABLE_TYPE SumLoops
#define TABLE_NAME sum_loops
#define TABLE_ENTRIES sum_to_all, sum_into
#include "kernels/cpu/per_isa.inc"
