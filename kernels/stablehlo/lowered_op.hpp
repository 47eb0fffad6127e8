#pragma once

#include "kernels/graph/graph.hpp"
#include "kernels/stablehlo/program.hpp"

#include <optional>
#include <vector>

namespace troupe::kernels::stablehlo {

/// What a program is given of a micro-batch. Shapes: features [rows, …], ids
/// i32 [rows, ids], labels i32 or targets f32 [rows, …] as the loss's input has
/// places, key ui64, step_rows and step_leaves f32: of Batch::step, or the
/// micro-batch's own rows and 1.
struct BatchTensors {
  std::optional<Tensor> features;
  std::optional<Tensor> ids;
  std::optional<Tensor> labels;
  std::optional<Tensor> targets;
  std::optional<Tensor> key;
  std::optional<Tensor> step_rows;
  std::optional<Tensor> step_leaves;
};

/// What a loss gives besides its gradient. Shapes: losses f32 [rows]; correct
/// i32, a sum over the rows; classes i32 [rows, labels]. Of mean squared error
/// the latter two are not there.
struct LossTensors {
  Tensor losses;
  std::optional<Tensor> correct;
  std::optional<Tensor> classes;
};

/// One operator on its way into a program: what it reads, and what its backward
/// part wants of its forward part. Values are [rows, the value's shape].
struct LoweredOp {
  Program& program;
  const Graph& graph;
  const Op& op;
  uint64_t stream = 0; ///< of its random numbers
  uint32_t rows = 0;
  bool training = false;
  const BatchTensors& batch;
  std::vector<Tensor> inputs;
  std::vector<Tensor> parameters;
  std::vector<uint8_t> wants; ///< per input: its gradient is asked for

  Tensor output;
  std::vector<Tensor> kept;
  LossTensors loss; ///< of the last operator

  const OpAttributes& attributes() const { return op.attributes; }
  /// Shape of the output, rows included.
  Shape shape() const;
};

struct OpGradients {
  std::vector<std::optional<Tensor>> inputs; ///< where wanted
  std::vector<Tensor> parameters;
};

/// How a kind of operator is written: one file a family.
struct Lowering {
  OpKind kind;
  Tensor (*forward)(LoweredOp& at);
  /// `d`: the gradient of the output; of a loss nothing is read of it.
  OpGradients (*backward)(LoweredOp& at, const Tensor& d);
};

/// Null: there is none.
const Lowering* find_lowering(OpKind kind);

// Families, for find_lowering().
Tensor dense_forward(LoweredOp& at);
OpGradients dense_backward(LoweredOp& at, const Tensor& d);
Tensor convolution_forward(LoweredOp& at);
OpGradients convolution_backward(LoweredOp& at, const Tensor& d);
Tensor attention_forward(LoweredOp& at);
OpGradients attention_backward(LoweredOp& at, const Tensor& d);
Tensor rotary_forward(LoweredOp& at);
OpGradients rotary_backward(LoweredOp& at, const Tensor& d);
Tensor swiglu_forward(LoweredOp& at);
OpGradients swiglu_backward(LoweredOp& at, const Tensor& d);
Tensor interaction_forward(LoweredOp& at);
OpGradients interaction_backward(LoweredOp& at, const Tensor& d);
Tensor factorization_forward(LoweredOp& at);
OpGradients factorization_backward(LoweredOp& at, const Tensor& d);
Tensor max_pool_forward(LoweredOp& at);
OpGradients max_pool_backward(LoweredOp& at, const Tensor& d);
Tensor average_pool_forward(LoweredOp& at);
OpGradients average_pool_backward(LoweredOp& at, const Tensor& d);
Tensor batch_norm_forward(LoweredOp& at);
OpGradients batch_norm_backward(LoweredOp& at, const Tensor& d);
Tensor row_norm_forward(LoweredOp& at); ///< layer_norm, rms_norm
OpGradients row_norm_backward(LoweredOp& at, const Tensor& d);
Tensor softmax_forward(LoweredOp& at);
OpGradients softmax_backward(LoweredOp& at, const Tensor& d);
Tensor activation_forward(LoweredOp& at);
OpGradients activation_backward(LoweredOp& at, const Tensor& d);
Tensor dropout_forward(LoweredOp& at);
OpGradients dropout_backward(LoweredOp& at, const Tensor& d);
Tensor add_forward(LoweredOp& at);
OpGradients add_backward(LoweredOp& at, const Tensor& d);
Tensor multiply_forward(LoweredOp& at);
OpGradients multiply_backward(LoweredOp& at, const Tensor& d);
Tensor bias_forward(LoweredOp& at);
OpGradients bias_backward(LoweredOp& at, const Tensor& d);
Tensor embedding_forward(LoweredOp& at);
OpGradients embedding_backward(LoweredOp& at, const Tensor& d);
Tensor embedding_bag_forward(LoweredOp& at);
OpGradients embedding_bag_backward(LoweredOp& at, const Tensor& d);
Tensor concat_forward(LoweredOp& at);
OpGradients concat_backward(LoweredOp& at, const Tensor& d);
Tensor slice_forward(LoweredOp& at);
OpGradients slice_backward(LoweredOp& at, const Tensor& d);
Tensor reshape_forward(LoweredOp& at);
OpGradients reshape_backward(LoweredOp& at, const Tensor& d);
Tensor transpose_forward(LoweredOp& at);
OpGradients transpose_backward(LoweredOp& at, const Tensor& d);
Tensor softmax_loss_forward(LoweredOp& at);
OpGradients softmax_loss_backward(LoweredOp& at, const Tensor& d);
Tensor sigmoid_loss_forward(LoweredOp& at);
OpGradients sigmoid_loss_backward(LoweredOp& at, const Tensor& d);
Tensor squared_loss_forward(LoweredOp& at);
OpGradients squared_loss_backward(LoweredOp& at, const Tensor& d);

// -- what several families share ----------------------------------------------

Tensor activated(Program& program, Activation kind, const Tensor& z);
/// The gradient d of activated(z) as one of z.
Tensor activation_gradient(Program& program, Activation kind, const Tensor& z,
                           const Tensor& d);

/// Softmax over the last extent.
Tensor softmax_of(Program& program, const Tensor& z);

/// 0, …, count - 1.
std::vector<uint32_t> first_extents(uint32_t count);

} // namespace troupe::kernels::stablehlo
