#include "kernels/cpu/row_loops.hpp"

#define LEAF "kernels/cpu/row_leaf.inc"
#define TABLE_TYPE RowLoops
#define TABLE_NAME row_loops
#define TABLE_ENTRIES norm, norm_back, softmax_back, cross_entropy_back
#include "kernels/cpu/per_isa.inc"
