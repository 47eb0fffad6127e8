#include "kernels/cpu/compression_loops.hpp"

#define LEAF "kernels/cpu/compression_leaf.inc"
#define TABLE_TYPE CompressionLoops
#define TABLE_NAME compression_loops
#define TABLE_ENTRIES \
  float16_encode, float16_decode, bfloat16_encode, bfloat16_decode, \
    int8_encode, int8_decode, onebit_encode, onebit_decode
#include "kernels/cpu/per_isa.inc"
