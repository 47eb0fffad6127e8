#include "kernels/cpu/elementwise_loops.hpp"

#include "kernels/numbers/random.hpp"

#define LEAF "kernels/cpu/elementwise_leaf.inc"
#define TABLE_TYPE ElementwiseLoops
#define TABLE_NAME elementwise_loops
#define TABLE_ENTRIES \
  bias, add, slope, multiply, dropout, gate, gate_back, to_bfloat16
#include "kernels/cpu/per_isa.inc"
