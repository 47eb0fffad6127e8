#pragma once

#include <Eigen/Core>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <type_traits>
#include <vector>

// What operators compute with rows and matrices, once more in float64. Eigen
// knows nothing of the operators' loops, tiles and orders.

namespace troupe::test {

template <class T>
using RowMajor =
  Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// The matrix [rows, columns] that lies at `first`, a row every `stride`
/// elements.
template <class T>
auto matrix_at(T* first, size_t rows, size_t columns, size_t stride) {
  using Matrix = RowMajor<std::remove_const_t<T>>;
  using Held = std::conditional_t<std::is_const_v<T>, const Matrix, Matrix>;
  return Eigen::Map<Held, Eigen::Unaligned, Eigen::OuterStride<>>(
    first, static_cast<Eigen::Index>(rows), static_cast<Eigen::Index>(columns),
    Eigen::OuterStride<>(static_cast<Eigen::Index>(stride)));
}
/// Its rows follow one another.
template <class T>
auto matrix_at(T* first, size_t rows, size_t columns) {
  return matrix_at(first, rows, columns, columns);
}

/// x [rows, n] by weight [n, units], or [units, n] if it lies transposed, and
/// bias [units] unless it is null: [rows, units].
inline std::vector<double> dense_rows(const std::vector<double>& x, size_t n,
                                      const double* weight, size_t units,
                                      bool transposed, const double* bias) {
  const auto rows = x.size() / n;
  std::vector<double> y(rows * units);
  auto out = matrix_at(y.data(), rows, units);
  const auto in = matrix_at(x.data(), rows, n);
  if (transposed)
    out = in * matrix_at(weight, units, n).transpose();
  else
    out = in * matrix_at(weight, n, units);
  if (bias != nullptr)
    out.rowwise() += matrix_at(bias, 1, units).row(0);
  return y;
}

/// Each row of y [rows, n] less its mean if `centred`, over the root of its
/// mean square and epsilon, times gain [n]; and bias [n] unless it is null.
inline void norm_rows(std::vector<double>& y, size_t n, bool centred,
                      double epsilon, const double* gain, const double* bias) {
  auto rows = matrix_at(y.data(), y.size() / n, n).array();
  for (auto row : rows.rowwise()) {
    if (centred)
      row -= row.mean();
    row /= std::sqrt(row.square().mean() + epsilon);
    row *= matrix_at(gain, 1, n).array().row(0);
    if (bias != nullptr)
      row += matrix_at(bias, 1, n).array().row(0);
  }
}

/// Softmax of each row of y [rows, n].
inline void softmax_rows(std::vector<double>& y, size_t n) {
  auto rows = matrix_at(y.data(), y.size() / n, n).array();
  for (auto row : rows.rowwise()) {
    row = (row - row.maxCoeff()).exp();
    row /= row.sum();
  }
}

/// Heads of queries, those of keys and as many of values, side by side.
struct PackedHeads {
  size_t length;
  size_t head; ///< elements of one
  size_t queries;
  size_t keys;

  size_t width() const { return queries * head; }
  size_t stride() const { return (queries + 2 * keys) * head; }
};

/// Attention of head h of one sample as it is defined. x: [length, stride()],
/// y: [length, width()].
inline void attend(const PackedHeads& of, size_t h, const double* x, double* y,
                   bool causal) {
  const auto key_at = (of.queries + h / (of.queries / of.keys)) * of.head;
  const auto part = [&](size_t first) {
    return matrix_at(x + first, of.length, of.head, of.stride());
  };
  const auto head = of.head;
  const auto query = part(h * head);
  const auto key = part(key_at);
  const auto value = part(key_at + of.keys * head);
  auto out = matrix_at(y + h * head, of.length, head, of.width());
  std::vector<double> weights;
  for (Eigen::Index i = 0; i < query.rows(); ++i) {
    const auto keys = causal ? i + 1 : key.rows();
    weights.resize(static_cast<size_t>(keys));
    auto row = matrix_at(weights.data(), 1, weights.size());
    row = query.row(i) * key.topRows(keys).transpose()
          / std::sqrt(static_cast<double>(head));
    softmax_rows(weights, weights.size());
    out.row(i) = row * value.topRows(keys);
  }
}

/// Turns queries and keys of one sample x [length, stride()] by their place,
/// pair by pair as complex numbers.
inline void turn_heads(const PackedHeads& of, double* x, double base,
                       bool interleaved) {
  for (size_t p = 0; p < of.length; ++p)
    for (size_t h = 0; h < of.queries + of.keys; ++h)
      for (size_t i = 0; i < of.head / 2; ++i) {
        auto* head = x + p * of.stride() + h * of.head;
        auto& first = head[interleaved ? 2 * i : i];
        auto& second = head[interleaved ? 2 * i + 1 : i + of.head / 2];
        const auto angle = static_cast<double>(p)
                           * std::pow(base, -2.0 * static_cast<double>(i)
                                              / static_cast<double>(of.head));
        const auto turned = std::complex<double>{first, second}
                            * std::polar(1.0, angle);
        first = turned.real();
        second = turned.imag();
      }
}

/// silu of the first half of each row of x [rows, 2 n], times the second.
inline std::vector<double> gated_rows(const std::vector<double>& x, size_t n) {
  std::vector<double> y(x.size() / 2);
  for (size_t i = 0; i < y.size(); ++i) {
    const auto* row = &x[i / n * 2 * n];
    const auto z = row[i % n];
    y[i] = z / (1 + std::exp(-z)) * row[n + i % n];
  }
  return y;
}

/// Dot products of the pairs i > j of x [n, width], to y.
inline void interact(const double* x, size_t n, size_t width, double* y) {
  const auto vectors = matrix_at(x, n, width);
  const RowMajor<double> products = vectors * vectors.transpose();
  for (Eigen::Index i = 0; i < products.rows(); ++i)
    y = std::copy_n(products.row(i).data(), i, y);
}

/// Half of the sum over width of (sum_n x)^2 - sum_n x^2.
inline double factorize(const double* x, size_t n, size_t width) {
  const auto vectors = matrix_at(x, n, width);
  return (vectors.colwise().sum().squaredNorm() - vectors.squaredNorm()) / 2;
}

} // namespace troupe::test
