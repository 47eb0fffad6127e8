#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace troupe {

/// One kernel at one shape, ready to be measured. It owns its memory.
struct KernelCase {
  std::string name;  ///< "dense forward"
  std::string shape; ///< "256 x 784 -> 512"
  double flops = 0;  ///< of one run; 0: bytes are what bounds it
  size_t bytes = 0;  ///< that one run has to touch, each once
  std::function<void()> run;
  /// Compares with a plain reference.
  /// Errors: InputError that names the case and both values.
  std::function<void()> verify;
};

/// Makes cases that share memory; called one after the other, so that only one
/// family's memory is there at a time.
using CaseMaker = std::function<std::vector<KernelCase>()>;

/// A square product, as a dense layer: the ceiling of the others.
KernelCase square_product(size_t n);
/// Operators at the shapes of the models, on one thread of the CPU.
std::vector<CaseMaker> operator_cases();
/// Optimizers out of cache and at a slice's size, norms.
std::vector<CaseMaker> update_cases();
/// Compression of a slice.
std::vector<CaseMaker> compression_cases();

/// Refuses a value that is off by more than `tolerance` times the larger of
/// 1 and the reference's size.
void check_near(const std::string& what, double value, double reference,
                double tolerance);

} // namespace troupe
