#pragma once

#include "kernels/engine/device.hpp"
#include "tests/unit/kernels/tolerance.hpp"

#include <functional>
#include <string>
#include <vector>

namespace troupe::test {

/// What an operator's reference reads, in float64, row-major with the rows
/// first.
struct Operands {
  uint32_t rows = 0;
  std::vector<std::vector<double>> inputs;
  std::vector<std::vector<double>> parameters;
};

/// Where an operator's bits are those of the set selected.
enum class SameBits {
  on_every_isa,
  with_fma, ///< on every set but sse4: matrix products take part
  nowhere,  ///< oneDNN computes
};

/// One operator at one shape, with its float64 forward. Gradients are checked
/// against central differences of the reference.
struct OperatorCase {
  OpKind kind = OpKind::dense;
  OpAttributes attributes;
  uint32_t rows = 1;
  std::vector<Shape> inputs;     ///< without the rows
  std::vector<Shape> parameters; ///< without the statistics' roles, see below
  Shape output;

  /// Returns [rows, output]; of a loss one number, its sum over the rows.
  std::function<std::vector<double>(const Operands&)> reference;

  /// Ids of input i where it holds int32; empty: float32, drawn.
  std::vector<std::vector<int32_t>> ids;
  std::vector<int32_t> labels; ///< of losses, [rows, labels]
  std::vector<float> targets;  ///< of mean squared error
  /// Parameters that have no gradient by differences: running statistics, whose
  /// slots get what `statistics` returns.
  std::vector<size_t> statistics_at;
  std::function<std::vector<std::vector<double>>(const Operands&)> statistics;

  bool training = true;      ///< false: the forward pass of an evaluation
  double low = -1, high = 1; ///< of drawn inputs
  double parameter_low = -1, parameter_high = 1;
  uint64_t key = 7; ///< of dropout
  SameBits same_bits = SameBits::on_every_isa;
  Precision precision = Precision::float32;
  Tolerance forward = float32_sum;
  Tolerance backward = float32_sum;
  size_t differences = 60; ///< elements of each operand that are checked
  uint32_t seed = 1;
  std::string name = "op"; ///< of the operator, for errors
};

/// Checks on every device present: the forward pass; gradients, overwriting and
/// adding; equal bits again, with other memory and room for more rows; that
/// only what Needs declares is read in the backward pass (all else is
/// poisoned); in place, and in halves, where declared; and equal bits on every
/// instruction set. A device that answers "not supported" is printed.
void check_operator(const OperatorCase& given);

/// cpu:0, and cuda:0 where there is one.
std::vector<DeviceId> devices_present();

} // namespace troupe::test
