#include "kernels/stablehlo/program.hpp"

#include "kernels/base/require.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <initializer_list>
#include <numeric>
#include <utility>

namespace troupe::kernels::stablehlo {

namespace {

constexpr std::array element_names{"f32", "bf16", "i1", "i32", "ui64"};

const char* name_of(Element element) {
  return element_names[static_cast<size_t>(element)];
}

std::string name_of(const Tensor& value) {
  return "%" + std::to_string(value.name);
}

template <class List>
std::string joined(const List& list) {
  std::string out;
  for (const auto& item : list)
    out += (out.empty() ? "" : ", ") + std::to_string(item);
  return out;
}

template <class List>
std::string bracketed(const List& list) {
  std::string out{"["};
  return out.append(joined(list)).append("]");
}

/// array<i64: 1, 2>
template <class List>
std::string array_of(const List& list) {
  std::string out{"array<i64: "};
  return out.append(joined(list)).append(">");
}

std::string names_of(std::initializer_list<Tensor> values) {
  std::string out;
  for (const auto& value : values)
    out += (out.empty() ? "" : ", ") + name_of(value);
  return out;
}

/// "(tensor<…>, tensor<…>) -> tensor<…>"
std::string signature(std::initializer_list<Tensor> values,
                      const TensorType& result) {
  std::string out;
  for (const auto& value : values)
    out += (out.empty() ? "" : ", ") + to_string(value.type);
  return "(" + out + ") -> " + to_string(result);
}

/// A decimal number that reads back as the same float32; what has none as its
/// bits.
std::string float_text(float value) {
  char text[40];
  if (std::isfinite(value))
    std::snprintf(text, sizeof text, "%.9e", static_cast<double>(value));
  else
    std::snprintf(text, sizeof text, "0x%08X", std::bit_cast<uint32_t>(value));
  return text;
}

std::vector<uint32_t> counted_from(uint32_t first, uint32_t count) {
  std::vector<uint32_t> out(count);
  std::iota(out.begin(), out.end(), first);
  return out;
}

/// [[0, 0], [low, high], [low, high], [0, 0]] of images.
std::string image_padding(const Window& window) {
  const auto pair = [&](size_t i) {
    return "[" + std::to_string(window.low[i]) + ", "
           + std::to_string(window.high[i]) + "]";
  };
  return "dense<[[0, 0], " + pair(0) + ", " + pair(1)
         + ", [0, 0]]> : tensor<4x2xi64>";
}

/// The attributes of a window over [n, height, width, c].
std::string window_attributes(const Window& window) {
  const auto inner = [](const uint64_t(&of)[2]) {
    return array_of(std::array<uint64_t, 4>{1, of[0], of[1], 1});
  };
  return "padding = " + image_padding(window) + ", window_dimensions = "
         + inner(window.size) + ", window_strides = " + inner(window.stride);
}

/// A region of two scalars that ends with one operation on them.
std::string region(const std::string& operation, const TensorType& scalar,
                   const TensorType& result) {
  const auto type = to_string(scalar);
  return "{\n    ^bb0(%a: " + type + ", %b: " + type
         + "):\n      %c = " + operation
         + "\n      stablehlo.return %c : " + to_string(result) + "\n    }";
}

std::string scalar_region(std::string_view op, const TensorType& scalar) {
  return region("stablehlo." + std::string{op}
                  + " %a, %b : " + to_string(scalar),
                scalar, scalar);
}

/// One group of all replicas.
std::string all_replicas(uint32_t replicas) {
  return "replica_groups = dense<[" + bracketed(counted_from(0, replicas))
         + "]> : tensor<1x" + std::to_string(replicas) + "xi64>";
}

} // namespace

std::string to_string(const TensorType& type) {
  std::string out{"tensor<"};
  for (auto extent : type.shape)
    out += std::to_string(extent) + "x";
  return out + name_of(type.element) + ">";
}

Tensor Program::fresh(TensorType type) {
  return {names_++, std::move(type)};
}

Tensor Program::emit(TensorType type, std::string_view what,
                     const std::string& rest) {
  auto value = fresh(std::move(type));
  body_.append("    ").append(name_of(value)).append(" = ");
  body_.append(what).append(rest).append("\n");
  return value;
}

Tensor Program::argument(TensorType type, std::optional<uint32_t> donated_to) {
  arguments_.push_back(type);
  donated_.push_back(donated_to);
  argument_values_.push_back(fresh(std::move(type)));
  return argument_values_.back();
}

Tensor Program::filled(const std::string& number, const TensorType& type) {
  return emit(type, "stablehlo.constant dense<",
              number + "> : " + to_string(type));
}

Tensor Program::constant(float value, const Shape& shape) {
  return filled(float_text(value), {shape, Element::f32});
}

Tensor Program::integer(int64_t value, const Shape& shape) {
  return filled(std::to_string(value), {shape, Element::i32});
}

Tensor Program::word(uint64_t value) {
  return filled(std::to_string(value), {{}, Element::ui64});
}

Tensor Program::table(const std::vector<int32_t>& values) {
  require(!values.empty(), "a table of nothing");
  return filled(bracketed(values), {{values.size()}, Element::i32});
}

/// As the bytes that they are, since no number is cut short then.
Tensor Program::numbers(const std::vector<float>& values, const Shape& shape) {
  require(!values.empty() && values.size() == elements(shape),
          "as many numbers as the shape has");
  constexpr const char* digits = "0123456789ABCDEF";
  std::string bytes;
  for (const auto value : values)
    for (auto bits = std::bit_cast<uint32_t>(value), i = 0u; i < 4;
         ++i, bits >>= 8)
      bytes.append({digits[bits >> 4 & 15], digits[bits & 15]});
  auto& known = numbers_[{bytes, shape}];
  if (known.shape().empty())
    known = filled("\"0x" + bytes + '"', {shape, Element::f32});
  return known;
}

Tensor Program::binary(std::string_view op, const Tensor& a, const Tensor& b) {
  require(a.type == b.type, "two operands of different types");
  return emit(a.type, "stablehlo.",
              std::string{op} + " " + names_of({a, b}) + " : "
                + to_string(a.type));
}

Tensor Program::binary(std::string_view op, const Tensor& a, float b) {
  return binary(op, a, constant(b, a.shape()));
}

Tensor Program::unary(std::string_view op, const Tensor& a) {
  return emit(a.type, "stablehlo.",
              std::string{op} + " " + name_of(a) + " : " + to_string(a.type));
}

Tensor Program::compare(std::string_view direction, const Tensor& a,
                        const Tensor& b) {
  require(a.type == b.type, "two operands of different types");
  const TensorType type{a.shape(), Element::i1};
  const auto* order = a.type.element == Element::f32    ? "FLOAT"
                      : a.type.element == Element::ui64 ? "UNSIGNED"
                                                        : "SIGNED";
  return emit(type, "stablehlo.compare ",
              std::string{direction} + ", " + names_of({a, b}) + ", " + order
                + " : " + signature({a, b}, type));
}

Tensor Program::is_finite(const Tensor& a) {
  const TensorType type{a.shape(), Element::i1};
  return emit(type, "stablehlo.is_finite ",
              name_of(a) + " : " + signature({a}, type));
}

Tensor Program::select(const Tensor& which, const Tensor& yes,
                       const Tensor& no) {
  require(yes.type == no.type && which.type.element == Element::i1
            && which.shape() == yes.shape(),
          "operands of a selection");
  return emit(yes.type, "stablehlo.select ",
              names_of({which, yes, no}) + " : " + to_string(which.type) + ", "
                + to_string(yes.type));
}

Tensor Program::convert(const Tensor& a, Element to) {
  if (a.type.element == to)
    return a;
  const TensorType type{a.shape(), to};
  return emit(type, "stablehlo.convert ",
              name_of(a) + " : " + signature({a}, type));
}

Tensor Program::reshape(const Tensor& a, const Shape& shape) {
  require(elements(a.shape()) == elements(shape), "a reshape loses elements");
  if (a.shape() == shape)
    return a;
  const TensorType type{shape, a.type.element};
  return emit(type, "stablehlo.reshape ",
              name_of(a) + " : " + signature({a}, type));
}

Tensor Program::transpose(const Tensor& a,
                          const std::vector<uint32_t>& permutation) {
  require(permutation.size() == a.rank(), "a permutation of all extents");
  TensorType type{{}, a.type.element};
  for (auto extent : permutation)
    type.shape.push_back(a.shape().at(extent));
  return emit(type, "stablehlo.transpose ",
              name_of(a) + ", dims = " + bracketed(permutation) + " : "
                + signature({a}, type));
}

Tensor Program::reverse(const Tensor& a, const std::vector<uint32_t>& extents) {
  return emit(a.type, "stablehlo.reverse ",
              name_of(a) + ", dims = " + bracketed(extents) + " : "
                + to_string(a.type));
}

Tensor Program::broadcast(const Tensor& a, const Shape& shape,
                          const std::vector<uint32_t>& places) {
  require(places.size() == a.rank(), "a place for each extent");
  for (size_t i = 0; i < places.size(); ++i)
    require(a.shape()[i] == shape.at(places[i]) || a.shape()[i] == 1,
            "an extent that a broadcast keeps");
  if (a.shape() == shape)
    return a;
  const TensorType type{shape, a.type.element};
  return emit(type, "stablehlo.broadcast_in_dim ",
              name_of(a) + ", dims = " + bracketed(places) + " : "
                + signature({a}, type));
}

Tensor Program::broadcast_to_rows(const Tensor& a, const Shape& shape) {
  const auto rank = static_cast<uint32_t>(shape.size());
  return broadcast(a, shape, counted_from(rank - a.rank(), a.rank()));
}

Tensor Program::broadcast_along_rows(const Tensor& a, const Shape& shape,
                                     uint32_t inner) {
  require(a.rank() + inner == shape.size(), "extents that a broadcast adds");
  return broadcast(a, shape, counted_from(0, a.rank()));
}

Tensor Program::iota(const TensorType& type, uint32_t extent) {
  return emit(type, "stablehlo.iota dim = ",
              std::to_string(extent) + " : " + to_string(type));
}

Tensor Program::slice(const Tensor& a, uint32_t extent, uint64_t begin,
                      uint64_t end) {
  auto type = a.type;
  require(begin < end && end <= type.shape.at(extent), "a slice");
  type.shape[extent] = end - begin;
  std::string ranges;
  for (uint32_t i = 0; i < a.rank(); ++i) {
    const auto from = i == extent ? begin : 0;
    const auto to = i == extent ? end : a.shape()[i];
    ranges += (i == 0 ? "" : ", ") + std::to_string(from) + ":"
              + std::to_string(to);
  }
  return emit(type, "stablehlo.slice ",
              name_of(a) + " [" + ranges + "] : " + signature({a}, type));
}

Tensor Program::concatenate(const std::vector<Tensor>& parts, uint32_t extent) {
  require(!parts.empty(), "parts to put together");
  auto type = parts.front().type;
  type.shape.at(extent) = 0;
  std::string names;
  std::string types;
  for (const auto& part : parts) {
    type.shape[extent] += part.shape().at(extent);
    names += name_of(part) + ", ";
    types += (types.empty() ? "" : ", ") + to_string(part.type);
  }
  return emit(type, "stablehlo.concatenate ",
              names + "dim = " + std::to_string(extent) + " : (" + types
                + ") -> " + to_string(type));
}

Tensor Program::pad(const Tensor& a, const Padding& padding) {
  auto type = a.type;
  for (size_t i = 0; i < type.shape.size(); ++i) {
    auto& extent = type.shape[i];
    const auto between = (extent - 1) * padding.between.at(i);
    extent = static_cast<uint64_t>(static_cast<int64_t>(extent + between)
                                   + padding.low.at(i) + padding.high.at(i));
  }
  const auto zero = constant(0);
  return emit(type, "stablehlo.pad ",
              names_of({a, zero}) + ", low = " + bracketed(padding.low)
                + ", high = " + bracketed(padding.high)
                + ", interior = " + bracketed(padding.between) + " : "
                + signature({a, zero}, type));
}

/// What changes nothing of a reduction.
Tensor Program::lowest(std::string_view op, Element element) {
  const bool is_float = element == Element::f32;
  require(is_float || element == Element::i32, "what is reduced");
  if (op == "add")
    return is_float ? constant(0) : integer(0);
  if (op == "maximum")
    return is_float ? constant(-INFINITY) : integer(INT32_MIN);
  require(op == "minimum", "no such reduction");
  return is_float ? constant(INFINITY) : integer(INT32_MAX);
}

Tensor Program::reduce(std::string_view op, const Tensor& a,
                       std::vector<uint32_t> extents) {
  if (extents.empty())
    return a;
  std::sort(extents.begin(), extents.end());
  TensorType type{{}, a.type.element};
  for (uint32_t i = 0; i < a.rank(); ++i)
    if (!std::binary_search(extents.begin(), extents.end(), i))
      type.shape.push_back(a.shape()[i]);
  const auto first = lowest(op, a.type.element);
  return emit(type, "stablehlo.reduce(",
              name_of(a) + " init: " + name_of(first) + ") applies stablehlo."
                + std::string{op} + " across dimensions = " + bracketed(extents)
                + " : " + signature({a, first}, type));
}

Tensor Program::reduce_window(std::string_view op, const Tensor& a,
                              const Window& window, const Shape& shape) {
  const TensorType type{shape, Element::f32};
  const auto first = lowest(op, a.type.element);
  return emit(type, "\"stablehlo.reduce_window\"(",
              names_of({a, first}) + ") <{" + window_attributes(window) + "}> ("
                + scalar_region(op, {}) + ") : " + signature({a, first}, type));
}

Tensor Program::scatter_to_largest(const Tensor& a, const Tensor& values,
                                   const Window& window) {
  const auto zero = constant(0);
  const TensorType yes{{}, Element::i1};
  const auto larger = region("stablehlo.compare GE, %a, %b, FLOAT : "
                             "(tensor<f32>, tensor<f32>) -> tensor<i1>",
                             {}, yes);
  return emit(a.type, "\"stablehlo.select_and_scatter\"(",
              names_of({a, values, zero}) + ") <{" + window_attributes(window)
                + "}> (" + larger + ", " + scalar_region("add", {})
                + ") : " + signature({a, values, zero}, a.type));
}

Tensor Program::rounded(const Tensor& a) {
  return convert(a, products_);
}

std::string Program::precision() const {
  return products_ == Element::f32 ? "HIGHEST" : "DEFAULT";
}

Tensor Program::dot(const Tensor& a, const Tensor& b,
                    const DotExtents& extents) {
  TensorType type;
  const auto keep = [&](const Tensor& of, const std::vector<uint32_t>& batch,
                        const std::vector<uint32_t>& contract) {
    for (uint32_t i = 0; i < of.rank(); ++i)
      if (std::ranges::find(batch, i) == batch.end()
          && std::ranges::find(contract, i) == contract.end())
        type.shape.push_back(of.shape()[i]);
  };
  for (size_t i = 0; i < extents.batch_a.size(); ++i) {
    type.shape.push_back(a.shape().at(extents.batch_a[i]));
    require(b.shape().at(extents.batch_b.at(i)) == type.shape.back(),
            "extents of a batch");
  }
  for (size_t i = 0; i < extents.contract_a.size(); ++i)
    require(a.shape().at(extents.contract_a[i])
              == b.shape().at(extents.contract_b.at(i)),
            "extents that a product sums over");
  keep(a, extents.batch_a, extents.contract_a);
  keep(b, extents.batch_b, extents.contract_b);
  const auto x = rounded(a);
  const auto y = rounded(b);
  std::string rest = names_of({x, y});
  if (!extents.batch_a.empty())
    rest += ", batching_dims = " + bracketed(extents.batch_a) + " x "
            + bracketed(extents.batch_b);
  rest += ", contracting_dims = " + bracketed(extents.contract_a) + " x "
          + bracketed(extents.contract_b) + ", precision = [" + precision()
          + ", " + precision() + "] : " + signature({x, y}, type);
  return emit(type, "stablehlo.dot_general ", rest);
}

Tensor Program::convolve(const Tensor& input, const Tensor& kernel,
                         const Convolution& how) {
  const TensorType type{how.shape, Element::f32};
  const auto x = rounded(input);
  const auto w = rounded(kernel);
  const auto pairs = [](const uint64_t(&of)[2]) {
    return bracketed(std::array<uint64_t, 2>{of[0], of[1]});
  };
  const auto& window = how.window;
  std::string padding;
  for (size_t i = 0; i < 2; ++i)
    padding += (i == 0 ? "[" : ", [") + std::to_string(window.low[i]) + ", "
               + std::to_string(window.high[i]) + "]";
  const auto one = "#stablehlo<precision " + precision() + ">";
  std::string rest = "(" + names_of({x, w}) + ") dim_numbers = [";
  rest.append(how.input).append("]x[").append(how.kernel);
  rest.append("]->[").append(how.result);
  rest += "], window = {stride = " + pairs(window.stride) + ", pad = ["
          + padding + "], lhs_dilate = " + pairs(window.base_dilation)
          + ", rhs_dilate = " + pairs(window.window_dilation)
          + "} {batch_group_count = " + std::to_string(how.batch_groups)
          + " : i64, feature_group_count = "
          + std::to_string(how.feature_groups) + " : i64, precision_config = ["
          + one + ", " + one + "]} : " + signature({x, w}, type);
  return emit(type, "stablehlo.convolution", rest);
}

Tensor Program::take_rows(const Tensor& table, const Tensor& ids) {
  require(table.rank() == 2, "a table [n, width]");
  TensorType type = table.type;
  type.shape = ids.shape();
  type.shape.push_back(table.shape()[1]);
  const auto rank = std::to_string(ids.rank());
  return emit(type, "\"stablehlo.gather\"(",
              names_of({table, ids})
                + ") <{dimension_numbers = #stablehlo.gather<offset_dims = ["
                + rank
                + "], collapsed_slice_dims = [0], start_index_map = [0], "
                  "index_vector_dim = "
                + rank + ">, indices_are_sorted = false, slice_sizes = "
                + array_of(std::array<uint64_t, 2>{1, table.shape()[1]})
                + "}> : " + signature({table, ids}, type));
}

Tensor Program::add_rows(const Shape& table, const Tensor& ids,
                         const Tensor& rows) {
  const auto zeros = constant(0, table);
  const auto rank = std::to_string(ids.rank());
  return emit(
    zeros.type, "\"stablehlo.scatter\"(",
    names_of({zeros, ids, rows})
      + ") <{indices_are_sorted = false, scatter_dimension_numbers = "
        "#stablehlo.scatter<update_window_dims = ["
      + rank
      + "], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], "
        "index_vector_dim = "
      + rank + ">, unique_indices = false}> (" + scalar_region("add", {})
      + ") : " + signature({zeros, ids, rows}, zeros.type));
}

Tensor Program::take_columns(const Tensor& a, const Tensor& columns) {
  require(a.rank() == 2 && columns.rank() == 1, "columns of [rows, n]");
  const TensorType type{{a.shape()[0], columns.shape()[0]}, a.type.element};
  return emit(type, "\"stablehlo.gather\"(",
              names_of({a, columns})
                + ") <{dimension_numbers = #stablehlo.gather<offset_dims = "
                  "[0], collapsed_slice_dims = [1], start_index_map = [1], "
                  "index_vector_dim = 1>, indices_are_sorted = false, "
                  "slice_sizes = "
                + array_of(std::array<uint64_t, 2>{a.shape()[0], 1})
                + "}> : " + signature({a, columns}, type));
}

Tensor Program::all_to_all(const Tensor& a, uint32_t replicas) {
  require(a.rank() > 0 && a.shape()[0] == replicas, "a part for each replica");
  return emit(
    a.type, "\"stablehlo.all_to_all\"(",
    name_of(a) + ") <{concat_dimension = 0 : i64, " + all_replicas(replicas)
      + ", split_count = " + std::to_string(replicas)
      + " : i64, split_dimension = 0 : i64}> : " + signature({a}, a.type));
}

Tensor Program::all_gather(const Tensor& a, uint32_t replicas) {
  require(a.rank() == 1, "elements that follow one another");
  const TensorType type{{a.shape()[0] * replicas}, a.type.element};
  return emit(type, "\"stablehlo.all_gather\"(",
              name_of(a) + ") <{all_gather_dim = 0 : i64, "
                + all_replicas(replicas) + "}> : " + signature({a}, type));
}

Tensor Program::all_reduce(const Tensor& a, uint32_t replicas) {
  return emit(a.type, "\"stablehlo.all_reduce\"(",
              name_of(a) + ") <{" + all_replicas(replicas) + "}> ("
                + scalar_region("add", {}) + ") : " + signature({a}, a.type));
}

std::string Program::text() const {
  std::string arguments;
  for (size_t i = 0; i < argument_values_.size(); ++i) {
    const auto& value = argument_values_[i];
    arguments += (i == 0 ? "" : ", ") + name_of(value) + ": "
                 + to_string(value.type);
    if (donated_[i])
      arguments += " {tf.aliasing_output = " + std::to_string(*donated_[i])
                   + " : i32}";
  }
  std::string names;
  std::string types;
  for (const auto& value : results_) {
    names += (names.empty() ? "" : ", ") + name_of(value);
    types += (types.empty() ? "" : ", ") + to_string(value.type);
  }
  return "module @troupe {\n  func.func public @main(" + arguments + ") -> ("
         + types + ") {\n" + body_ + "    return " + names + " : " + types
         + "\n  }\n}\n";
}

} // namespace troupe::kernels::stablehlo
