#include "kernels/cpu/loop_table.hpp"

#define LEAF "kernels/cpu/loops_leaf.inc"
#define TABLE_TYPE LoopTable
#define TABLE_NAME loops
#define TABLE_ENTRIES \
  add, all_finite, bias_forward, bias_backward, exp_shifted, softmax
#include "kernels/cpu/per_isa.inc"
