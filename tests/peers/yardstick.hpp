#pragma once

#include <cstddef>

// What yardsticks.cpp asks of another library's products and convolutions: each
// is a shared object of its own (onednn_yardstick.cpp, openblas_yardstick.cpp),
// so that versions of one library with unlike sonames fit into one process.

namespace troupe::yardstick {

/// c [m, n] = a [m, k] b [k, n], float32, row-major; a turned operand lies [k,
/// m] or [n, k].
struct Product {
  size_t m, n, k;
  bool a_turned, b_turned;
};

enum class Pass { forward, input_gradient, weight_gradient };

/// Square windows; images [rows, height, width, channels], weights [kernel,
/// kernel, channels / groups, units], no bias.
struct Convolution {
  Pass pass;
  size_t rows, height, width, channels;
  size_t out_height, out_width, units;
  size_t kernel, stride, padding, groups;
};

/// What was prepared for one shape; on one thread. Of a convolution x, weights
/// and y, of which the pass writes one.
class Prepared {
public:
  virtual ~Prepared() = default;
  virtual void run(float* a, float* b, float* c) = 0;
};

constexpr int ways = 2;

/// A library's. `way` is below `ways`; the best one counts.
class Library {
public:
  virtual ~Library() = default;
  virtual const char* name() const = 0;
  /// Null: there is no such way.
  virtual Prepared* product(const Product& shape, int way) = 0;
  virtual Prepared* convolution(const Convolution& shape, int way) = 0;
};

/// What a shared object exports: the library, pinned to an instruction set of
/// Troupe's names and to one thread.
using Open = Library* (*)(const char* isa);
constexpr const char* open_name = "troupe_yardstick";

} // namespace troupe::yardstick
