#include "kernels/base/seconds_since.hpp"
#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/nonzero_matrix.hpp"
#include "kernels/numbers/random.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <mutex>
#include <vector>

namespace troupe::kernels {

namespace {

// A hidden layer's, large enough for whole tiles and blocks.
constexpr size_t rows = 128;
constexpr size_t columns = 256;
constexpr size_t n = 512;

constexpr StackedLeaf halves[] = {{rows / 2, 0, 0}, {rows / 2, 1, 1}};

constexpr BreakEven always_left_out = {1, 1, 1, 1};
constexpr BreakEven never_left_out = {-1, -1, -1, -1};

class Sample {
public:
  Sample() : a_(rows * columns), b_(n * columns), c_(columns * n) {
    for (size_t i = 0; i < a_.size(); ++i)
      a_[i] = random_bits(1, i) % 2 == 0 ? 1.0f : 0.0f;
    found_ = static_cast<double>(std::count(a_.begin(), a_.end(), 1.0f))
             / static_cast<double>(a_.size());
    std::fill(b_.begin(), b_.end(), 1.0f);
  }

  /// `multiply` with a NonzeroMatrix that took a: zeros cost their part of the
  /// dense product's time.
  template <class Multiply>
  double break_even(const Multiply& multiply) {
    return found_ * seconds(never_left_out, multiply)
           / seconds(always_left_out, multiply);
  }

  const float* a() const { return a_.data(); }
  const float* b() const { return b_.data(); }
  float* c() { return c_.data(); }

private:
  template <class Multiply>
  double seconds(const BreakEven& rates, const Multiply& multiply) {
    constexpr int repetitions = 6;
    NonzeroMatrix matrix{rates};
    auto best = std::numeric_limits<double>::infinity();
    for (int i = 0; i < repetitions; ++i) {
      const auto begin = SteadyClock::now();
      matrix.take(a(), rows, columns, n, 1);
      multiply(matrix);
      best = std::min(best, seconds_since(begin));
    }
    return best;
  }

  std::vector<float> a_;
  std::vector<float> b_;
  std::vector<float> c_;
  double found_; ///< share of a that is not zero
};

BreakEven measure() {
  Sample sample;
  const auto product = [&](Side side_b) {
    return sample.break_even([&](NonzeroMatrix& matrix) {
      matrix.multiply(sample.a(), side_b, sample.b(), n, sample.c(), false);
    });
  };
  return {
    product(Side::as_is), product(Side::transposed),
    sample.break_even([&](NonzeroMatrix& matrix) {
      matrix.multiply_transposed(sample.a(), sample.b(), n, sample.c(), false);
    }),
    sample.break_even([&](NonzeroMatrix& matrix) {
      matrix.multiply_leaves(halves, sample.a(), sample.b(), n, sample.c());
    })};
}

} // namespace

const BreakEven& BreakEven::measured() {
  static std::once_flag once[std::size(every_isa)];
  static BreakEven rates[std::size(every_isa)];
  const auto isa = static_cast<size_t>(selected_isa());
  std::call_once(once[isa], [&] { rates[isa] = measure(); });
  return rates[isa];
}

} // namespace troupe::kernels
