#pragma once

#include "kernels/graph/sample_shape.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

// -- parameters ---------------------------------------------------------------

/// How a parameter begins. he_uniform has the variance 2 / fan_in of He et al.,
/// "Delving Deep into Rectifiers", 2015, section 2.2.
enum class Initializer : uint8_t {
  zeros,
  ones,
  he_uniform,     ///< U(-b, b), b = sqrt(6 / fan_in)
  uniform,        ///< U(-scale, scale)
  normal,         ///< N(0, scale^2)
  fan_in_uniform, ///< U(-b, b), b = 1 / sqrt(fan_in)
};

enum class ParameterRole : uint8_t {
  trained,
  /// A running statistic of a batch norm: its "gradient" is the sum over the
  /// rows of what the micro-batch saw, and an update moves it by `momentum`
  /// towards the mean of that.
  statistic,
};

/// A tensor of a graph that training changes. Names are unique and ordered as
/// declared.
struct Parameter {
  std::string name;
  Shape shape;
  Initializer initializer = Initializer::zeros;
  uint64_t fan_in = 1;
  double scale = 0;
  ParameterRole role = ParameterRole::trained;
  float momentum = 0;   ///< of a statistic
  bool decays = true;   ///< weight decay holds for it: two extents or more
  bool by_rows = false; ///< a table: a step touches few of its rows

  uint64_t size() const { return elements(shape); }
};

/// What a parameter is of one that is cut into virtual slices. Along `axis` the
/// whole has `groups` blocks, and this is [begin, end) of each. They are of one
/// length, but the first may be `wide` times as long, of which this has
/// [wide begin, wide end): queries, of which several share a key.
struct ParameterPiece {
  uint32_t whole = 0; ///< of Graph::wholes
  uint32_t axis = 0;
  uint64_t begin = 0;
  uint64_t end = 0; ///< 0: it is the whole
  uint32_t groups = 1;
  uint32_t wide = 1;

  bool cut() const { return end > 0; }
};

/// A node of the fixed tree over virtual slices: [lo, hi) of them, with the
/// children that the tree over as many virtual ranks has (PROTOCOL 3).
struct SliceNode {
  uint32_t lo = 0;
  uint32_t hi = 0;

  bool operator==(const SliceNode&) const = default;
};

// -- operators ----------------------------------------------------------------

/// gelu(x) = x times the normal distribution up to x, not approximated
/// (Hendrycks and Gimpel, 2016); silu(x) = x sigmoid(x); gelu_tanh(x) = x (1 +
/// tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2, the same paper's approximation.
enum class Activation : uint8_t {
  none,
  relu,
  gelu,
  silu,
  tanh,
  sigmoid,
  gelu_tanh,
};

/// Tells whether the slope of an activation is worked out from what it was
/// given (gelu, silu) rather than from what it gave.
inline bool slope_reads_input(Activation kind) {
  return kind == Activation::gelu || kind == Activation::silu
         || kind == Activation::gelu_tanh;
}

/// What an operator computes. Shapes leave out the rows; [..., n] is any shape
/// that ends in n. Parameters in this order, where the operator has them.
enum class OpKind : uint8_t {
  /// y [..., units] = activation(x [..., n] w + bias).
  /// Parameters: weight [n, units] ([units, n] when transposed), bias [units].
  dense,
  /// x [h, w, c] -> [h', w', units], stride, zero padding, groups.
  /// Parameters: weight [kernel, kernel, c / groups, units], bias [units].
  conv2d,
  max_pool,     ///< [h, w, c] -> [h', w', c]; kernel 0: the whole image
  average_pool, ///< likewise; padded zeros are not counted
  /// Per channel (the last extent), over rows and the other extents of the
  /// micro-batch; then activation. Evaluation uses the running statistics.
  /// Parameters: scale [c], shift [c], mean [c], variance [c] (statistics).
  /// Source: Ioffe and Szegedy, "Batch Normalization", 2015, algorithm 1.
  batch_norm,
  layer_norm, ///< over the last extent; parameters: scale, shift (if bias)
  rms_norm,   ///< over the last extent; parameters: scale
  activation, ///< element-wise, the attribute of that name
  softmax,    ///< over the last extent
  dropout,    ///< at training: zero with probability rate, else x / (1 - rate)
  /// ids [n] -> [n, width], zeros for an absent id.
  /// Parameters: table [vocabulary, width].
  embedding,
  /// ids [n] (and weights [n], a second input) -> [width]: sum or mean over the
  /// present ids. Parameters: table [vocabulary, width].
  embedding_bag,
  /// Scaled dot-product attention: x [t, (heads + 2 key_value_heads) n] holds
  /// the heads of queries, keys and values side by side, each of n elements ->
  /// [t, heads n]. causal or full. With fewer heads of keys and values than of
  /// queries each is for as many queries' heads that follow one another.
  /// Source: Vaswani et al., "Attention Is All You Need", 2017, section 3.2;
  /// Ainslie et al., "GQA", 2023.
  attention,
  /// Turns queries and keys by their place: x as attention takes it -> same.
  /// Of a head of n elements at place p pair i, elements i and i + n / 2 (2 i
  /// and 2 i + 1 where `interleaved`), is a point that is turned by the angle
  /// p base^(-2 i / n). Values stay.
  /// Source: Su et al., "RoFormer: Enhanced Transformer with Rotary Position
  /// Embedding", 2021, section 3.2.2.
  rotary,
  /// x [..., 2 n] -> [..., n]: silu of the first half times the second.
  /// Source: Shazeer, "GLU Variants Improve Transformer", 2020.
  swiglu,
  /// x [n, d] -> [n (n - 1) / 2]: the dot product of each pair i > j, by i,
  /// then j (DLRM).
  interaction,
  /// x [n, d] -> [1]: half of the sum over d of (sum_n x)^2 - sum_n x^2
  /// (Rendle, "Factorization Machines", 2010).
  factorization,
  concat,    ///< along axis
  slice,     ///< [begin, end) along axis
  reshape,   ///< to shape
  transpose, ///< out extent i is extent permutation[i] of x
  add,       ///< two or more of one shape; then activation
  multiply,  ///< two of one shape, element by element
  bias,      ///< adds a parameter of the shape of x: positions, for example
  // Losses, always last, one value a sample: the mean over what the sample has
  // labels for. The input is what predictions are made from.
  softmax_cross_entropy, ///< logits [..., classes], labels [...]
  sigmoid_cross_entropy, ///< logits [1], labels 0 or 1
  mean_squared_error,    ///< [n], targets [n]
};

enum class BagMode : uint8_t { sum, mean };

/// The attributes of all kinds; a kind reads its own.
struct OpAttributes {
  uint64_t units = 0;
  Activation activation = Activation::none;
  bool bias = true;
  bool transposed = false; ///< dense: the weight lies [units, n]
  uint32_t kernel = 0;
  uint32_t stride = 1;
  uint32_t padding = 0; ///< zeros on each side; of "same": (kernel - 1) / 2
  uint32_t groups = 1;
  float epsilon = 1e-5f;
  float momentum = 0.1f; ///< of running statistics
  bool cross_replica = false;
  float rate = 0; ///< dropout
  uint64_t width = 0;
  uint64_t vocabulary = 0;
  BagMode mode = BagMode::sum;
  uint32_t heads = 1;
  uint32_t key_value_heads = 0; ///< 0: as many as heads
  bool causal = false;
  double base = 10000; ///< of rotary angles
  bool interleaved = false;
  uint32_t axis = 0;
  uint64_t begin = 0;
  uint64_t end = 0;
  Shape shape;
  std::vector<uint32_t> permutation;

  /// Heads that keys have, and values.
  uint32_t key_heads() const {
    return key_value_heads == 0 ? heads : key_value_heads;
  }
};

enum class ValueType : uint8_t { float32, int32 };

/// A tensor that flows through the graph.
struct Value {
  std::string name;
  Shape shape; ///< without the rows
  ValueType type = ValueType::float32;

  uint64_t size() const { return elements(shape); }
};

/// An operator of a static graph: reads values, writes one.
struct Op {
  OpKind kind = OpKind::dense;
  std::string name;
  std::vector<uint32_t> inputs;     ///< value indices
  uint32_t output = 0;              ///< value index
  std::vector<uint32_t> parameters; ///< parameter indices; a shared one occurs
                                    ///< in several operators
  OpAttributes attributes;
  /// Whose work it is, of a graph in virtual slices; empty: of all alike.
  std::optional<SliceNode> slices = {};
  /// Of its random numbers, of a graph that has some of another's operators;
  /// empty: its place in the graph.
  std::optional<uint64_t> stream = {};
};

// -- the graph ----------------------------------------------------------------

/// What is computed: a static graph of operators, in an order in which each
/// reads only what is there already. The last operator is the loss.
struct Graph {
  std::string text; ///< the specification it was made from
  SampleShape sample;
  std::vector<Value> values;
  std::vector<Op> ops;
  std::vector<Parameter> parameters;
  std::optional<uint32_t> features_value; ///< the value a batch's features are
  std::optional<uint32_t> ids_value;      ///< the value a batch's ids are
  uint32_t virtual_slices = 1; ///< that layers are cut into; virtual_slices.hpp
  std::vector<Parameter> wholes;      ///< before the cut; empty: nothing is cut
  std::vector<ParameterPiece> pieces; ///< what each parameter is of those

  const Op& loss() const { return ops.back(); }
  uint64_t features() const; ///< float32 values of a sample
  uint64_t ids() const;      ///< int32 ids of a sample
  /// Labels (of mean squared error: targets) of a sample.
  uint64_t labels() const;
  /// Values of a sample that the loss takes: a logit of each class (softmax),
  /// or of class 1 (sigmoid), or a number, of each label.
  uint64_t outputs() const;
  /// What a class index is out of; 2 of sigmoid, 0 of mean squared error.
  uint64_t classes() const;
  uint64_t parameter_count() const; ///< elements over all parameters
  /// Multiply-adds times two that one sample's forward and backward take in
  /// matrix products, convolutions and attention, without the gradient of the
  /// input.
  uint64_t flops_per_sample() const;
  uint64_t flops_of(size_t op) const; ///< the part of one operator
};

/// How many rows a micro-batch needs for each of them to count in training: two
/// where a batch norm sees one value of each channel in a sample, which alone
/// is its own mean.
uint32_t min_rows(const Graph& graph);

/// Where each parameter lies in one flat buffer: in order, each start aligned
/// to 16 elements (64 bytes); gaps are zero and belong to nobody.
struct Layout {
  static constexpr uint64_t nowhere = ~uint64_t{0};

  std::vector<uint64_t> offsets; ///< elements, one per parameter
  uint64_t total = 0;            ///< elements

  explicit Layout(const Graph& graph);
  /// Of these parameters alone, ascending; the others lie nowhere.
  Layout(const Graph& graph, const std::vector<uint32_t>& parameters);
};

/// Writes the initial parameters: a pure function of (seed, index of the whole
/// parameter, element of that), so any slice gives the same bits. `offset` and
/// the span are in elements of that parameter.
void initialize(const Graph& graph, uint64_t seed, uint32_t parameter,
                uint64_t offset, float* out, uint64_t count);

} // namespace troupe
