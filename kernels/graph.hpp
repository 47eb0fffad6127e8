#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace troupe {

enum class Initializer : uint8_t { zeros, ones, he_uniform };

/// A trainable tensor of a graph. Names are unique and ordered as declared.
struct Parameter {
  std::string name;
  std::vector<uint64_t> shape;
  Initializer initializer = Initializer::zeros;
  uint64_t fan_in = 1; ///< he_uniform draws from U(-b, b), b = sqrt(6/fan_in)

  uint64_t size() const;
};

enum class OpKind : uint8_t { dense, softmax_cross_entropy };
enum class Activation : uint8_t { none, relu };

/// An operator of a static graph. Tensor 0 is the input; operator i writes
/// tensor i + 1.
struct Op {
  OpKind kind = OpKind::dense;
  std::string name;
  uint32_t input = 0;  ///< tensor index
  uint32_t weight = 0; ///< parameter index; [inputs, outputs] row-major
  uint32_t bias = 0;   ///< parameter index; [outputs]
  Activation activation = Activation::none;
};

/// What is computed: a static graph of operators. The last operator is the
/// loss; the one before it writes the logits.
struct Graph {
  std::string text;      ///< the specification it was made from
  uint32_t features = 0; ///< elements of one sample
  uint32_t classes = 0;
  std::vector<Parameter> parameters;
  std::vector<Op> ops;

  uint64_t parameter_count() const; ///< elements over all parameters
  /// Multiply-adds times two that one sample's forward and backward take,
  /// without the gradient of the input.
  uint64_t flops_per_sample() const;
};

/// Makes a graph from a model specification, `mlp:784-512-256-10`: dense
/// layers with relu between them, softmax cross-entropy at the end.
/// Parameters: dense_0/weight [784, 512], dense_0/bias [512], …
/// Errors: UsageError for an unknown kind, bad widths, fewer than two widths;
/// "not available yet" for the models of CLI.md that do not exist.
Graph make_graph(const std::string& model);

/// Where each parameter lies in one flat buffer: in order, each start aligned
/// to 16 elements (64 bytes); gaps are zero and belong to nobody.
struct Layout {
  std::vector<uint64_t> offsets; ///< elements, one per parameter
  uint64_t total = 0;            ///< elements

  explicit Layout(const Graph& graph);
};

/// Writes the initial parameters: a pure function of (seed, parameter index,
/// element), so any slice gives the same bits. `offset` and the span are in
/// elements of that parameter.
void initialize(const Graph& graph, uint64_t seed, uint32_t parameter,
                uint64_t offset, float* out, uint64_t count);

} // namespace troupe
