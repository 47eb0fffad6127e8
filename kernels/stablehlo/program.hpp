#pragma once

#include "kernels/graph/sample_shape.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe::kernels::stablehlo {

enum class Element : uint8_t { f32, bf16, i1, i32, ui64 };

/// Shape, rows included, and type of a tensor.
struct TensorType {
  Shape shape;
  Element element = Element::f32;

  bool operator==(const TensorType&) const = default;
};
std::string to_string(const TensorType& type); ///< "tensor<8x16xf32>"

/// A value of a program, assigned once.
struct Tensor {
  uint32_t name = 0;
  TensorType type;

  const Shape& shape() const { return type.shape; }
  uint32_t rank() const { return static_cast<uint32_t>(type.shape.size()); }
};

/// Which extents of two tensors a product takes together: those of a batch come
/// first in the result, then what is left of a, then of b.
struct DotExtents {
  std::vector<uint32_t> batch_a;
  std::vector<uint32_t> batch_b;
  std::vector<uint32_t> contract_a;
  std::vector<uint32_t> contract_b;
};

/// A window that moves over the two inner extents of [n, height, width, c].
/// Padding may be negative: then the border is left out.
struct Window {
  uint64_t size[2] = {1, 1};
  uint64_t stride[2] = {1, 1};
  int64_t low[2] = {0, 0};
  int64_t high[2] = {0, 0};
  uint64_t base_dilation[2] = {1, 1};   ///< of what it moves over
  uint64_t window_dilation[2] = {1, 1}; ///< of itself
};

struct Convolution {
  Window window; ///< its size is that of the kernel
  /// Where n, height, width and c lie in input, kernel and result, in
  /// StableHLO's letters: "b, 0, 1, f".
  std::string_view input = "b, 0, 1, f";
  std::string_view kernel = "0, 1, i, o";
  std::string_view result = "b, 0, 1, f";
  uint64_t feature_groups = 1;
  uint64_t batch_groups = 1;
  Shape shape; ///< of the result
};

/// One StableHLO function, written operation by operation as MLIR's text; the
/// specification of that: openxla.org/stablehlo/spec. Results of the calls are
/// typed, so that a mistake is an assertion here and not a compiler's message.
class Program {
public:
  /// `donated_to`: the result that may take the argument's memory.
  Tensor argument(TensorType type,
                  std::optional<uint32_t> donated_to = std::nullopt);
  void result(const Tensor& value) { results_.push_back(value); }

  Tensor constant(float value, const Shape& shape = {});
  Tensor integer(int64_t value, const Shape& shape = {});
  Tensor word(uint64_t value); ///< ui64, no extents
  Tensor table(const std::vector<int32_t>& values);
  /// Equal ones are written once.
  Tensor numbers(const std::vector<float>& values, const Shape& shape);

  /// Element by element: "add", "subtract", "multiply", "divide", "maximum",
  /// "minimum", "and", "xor", "shift_right_logical". One type, which the
  /// result has.
  Tensor binary(std::string_view op, const Tensor& a, const Tensor& b);
  Tensor add(const Tensor& a, const Tensor& b) { return binary("add", a, b); }
  Tensor subtract(const Tensor& a, const Tensor& b) {
    return binary("subtract", a, b);
  }
  Tensor multiply(const Tensor& a, const Tensor& b) {
    return binary("multiply", a, b);
  }
  Tensor divide(const Tensor& a, const Tensor& b) {
    return binary("divide", a, b);
  }
  /// The same with one number for all elements.
  Tensor binary(std::string_view op, const Tensor& a, float b);
  /// "negate", "exponential", "log", "log_plus_one", "tanh", "logistic",
  /// "sqrt", "rsqrt", "abs".
  Tensor unary(std::string_view op, const Tensor& a);
  /// "EQ", "NE", "LT", "LE", "GT", "GE"; element type i1.
  Tensor compare(std::string_view direction, const Tensor& a, const Tensor& b);
  Tensor is_finite(const Tensor& a); ///< element type i1
  Tensor select(const Tensor& which, const Tensor& yes, const Tensor& no);
  Tensor convert(const Tensor& a, Element to);

  Tensor reshape(const Tensor& a, const Shape& shape);
  Tensor transpose(const Tensor& a, const std::vector<uint32_t>& permutation);
  Tensor reverse(const Tensor& a, const std::vector<uint32_t>& extents);
  /// Extent i of `a` becomes extent places[i] of the result, or is 1.
  Tensor broadcast(const Tensor& a, const Shape& shape,
                   const std::vector<uint32_t>& places);
  /// The last extents of the result are those of `a`.
  Tensor broadcast_to_rows(const Tensor& a, const Shape& shape);
  /// All but the last `inner` extents of the result are those of `a`.
  Tensor broadcast_along_rows(const Tensor& a, const Shape& shape,
                              uint32_t inner = 1);
  Tensor iota(const TensorType& type, uint32_t extent);
  Tensor slice(const Tensor& a, uint32_t extent, uint64_t begin, uint64_t end);
  Tensor concatenate(const std::vector<Tensor>& parts, uint32_t extent);
  /// Zeros before, after and between the elements of each extent.
  struct Padding {
    std::vector<int64_t> low;
    std::vector<int64_t> high;
    std::vector<uint64_t> between;
  };
  Tensor pad(const Tensor& a, const Padding& padding);

  /// "add", "maximum" or "minimum" over extents, which are gone then.
  Tensor reduce(std::string_view op, const Tensor& a,
                std::vector<uint32_t> extents);
  Tensor sum(const Tensor& a, std::vector<uint32_t> extents) {
    return reduce("add", a, std::move(extents));
  }
  /// "add" or "maximum" over windows of [n, height, width, c].
  Tensor reduce_window(std::string_view op, const Tensor& a,
                       const Window& window, const Shape& shape);
  /// Adds each of `values` where the first largest element of its window lies.
  Tensor scatter_to_largest(const Tensor& a, const Tensor& values,
                            const Window& window);

  Tensor dot(const Tensor& a, const Tensor& b, const DotExtents& extents);
  Tensor convolve(const Tensor& input, const Tensor& kernel,
                  const Convolution& how);

  /// Rows of table [n, width] that ids [...] name; clamped to [0, n).
  Tensor take_rows(const Tensor& table, const Tensor& ids);
  /// Zeros [n, width] to which the rows [..., width] are added, each at its
  /// id; an id outside [0, n) adds nothing.
  Tensor add_rows(const Shape& table, const Tensor& ids, const Tensor& rows);
  /// Columns of a [rows, n] by numbers [m].
  Tensor take_columns(const Tensor& a, const Tensor& columns);

  // Of a program that several replicas run together, one on each of its
  // devices.

  /// Replica i gets part i of every replica's `a` [replicas, …], in their
  /// order.
  Tensor all_to_all(const Tensor& a, uint32_t replicas);
  /// All replicas' `a` [n], one after another.
  Tensor all_gather(const Tensor& a, uint32_t replicas);
  /// The sum of all replicas' `a`, in an order that is the compiler's.
  Tensor all_reduce(const Tensor& a, uint32_t replicas);

  /// What `dot` and `convolve` compute in; results are float32. float32 asks
  /// for the highest precision: TPUs would round to bfloat16 otherwise.
  void compute_in(Element element) { products_ = element; }

  const std::vector<TensorType>& arguments() const { return arguments_; }
  const std::vector<Tensor>& results() const { return results_; }
  /// The whole module, whose function is named main.
  std::string text() const;

private:
  Tensor fresh(TensorType type);
  Tensor emit(TensorType type, std::string_view what, const std::string& rest);
  Tensor filled(const std::string& number, const TensorType& type);
  Tensor lowest(std::string_view op, Element element);
  Tensor rounded(const Tensor& a);
  std::string precision() const;

  uint32_t names_ = 0;
  Element products_ = Element::f32;
  std::vector<TensorType> arguments_;
  std::vector<Tensor> argument_values_;
  std::vector<std::optional<uint32_t>> donated_;
  std::vector<Tensor> results_;
  std::map<std::pair<std::string, Shape>, Tensor> numbers_; ///< by bytes
  std::string body_;
};

} // namespace troupe::kernels::stablehlo
