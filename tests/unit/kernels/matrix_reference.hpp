#pragma once

#include <Eigen/Core>

#include <algorithm>
#include <cmath>
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

/// Attention of one head of one sample as it is defined. x: [length, 3 width],
/// y: [length, width], both from the head's first element on.
inline void attend(const double* x, double* y, size_t length, size_t head,
                   size_t width, bool causal) {
  const auto query = matrix_at(x, length, head, 3 * width);
  const auto key = matrix_at(x + width, length, head, 3 * width);
  const auto value = matrix_at(x + 2 * width, length, head, 3 * width);
  auto out = matrix_at(y, length, head, width);
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
