#include "kernels/cpu/optimizer_loops.hpp"

#define LEAF "kernels/cpu/optimizer_leaf.inc"
#define TABLE_TYPE OptimizerLoops
#define TABLE_NAME optimizer_loops
#define TABLE_ENTRIES \
  sgd, momentum, nesterov, adam, adagrad, rmsprop, ftrl, lamb, statistic, \
    square_sums, lamb_square_sums
#include "kernels/cpu/per_isa.inc"
