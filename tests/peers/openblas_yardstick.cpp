// OpenBLAS's products for yardsticks.cpp.

#include "tests/peers/yardstick.hpp"

#include <cblas.h>

#include <cstdlib>
#include <string>

namespace {

using namespace troupe::yardstick;

class Sgemm final : public Prepared {
public:
  explicit Sgemm(const Product& shape) : shape_(shape) {}

  void run(float* a, float* b, float* c) override {
    const auto at = [](size_t extent) { return static_cast<blasint>(extent); };
    const auto& [m, n, k, a_turned, b_turned] = shape_;
    cblas_sgemm(CblasRowMajor, a_turned ? CblasTrans : CblasNoTrans,
                b_turned ? CblasTrans : CblasNoTrans, at(m), at(n), at(k), 1, a,
                at(a_turned ? m : k), b, at(b_turned ? k : n), 0, c, at(n));
  }

private:
  Product shape_;
};

class OpenBlas final : public Library {
public:
  OpenBlas() {
    openblas_set_num_threads(1);
    name_ = openblas_get_config();
    name_ = name_.substr(0, name_.find(' ', name_.find(' ') + 1)) + " "
            + openblas_get_corename();
  }
  const char* name() const override { return name_.c_str(); }
  Prepared* product(const Product& shape, int way) override {
    return way == 0 ? new Sgemm(shape) : nullptr;
  }
  Prepared* convolution(const Convolution&, int) override { return nullptr; }

private:
  std::string name_;
};

/// It chose its kernels when it was loaded, by what this says.
bool is_pinned() {
  return std::getenv("OPENBLAS_CORETYPE") != nullptr;
}

} // namespace

extern "C" Library* troupe_yardstick(const char* isa) {
  if (std::string{isa} == "avx2" && !is_pinned())
    return nullptr;
  return new OpenBlas;
}
