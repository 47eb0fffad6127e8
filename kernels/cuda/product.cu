#include "kernels/cuda/kernel.cuh"
#include "kernels/cuda/product.cuh"

namespace troupe::kernels::cuda {

namespace {

/// A thread takes an element of c and adds up in order of k.
template <class Operand, class Result>
struct Element {
  MatmulShape shape;
  const Operand* a;
  const Operand* b;
  Result* c;

  __device__ void operator()(uint64_t i) const {
    const auto row = i / shape.n;
    const auto column = i % shape.n;
    float sum = 0;
    for (uint64_t k = 0; k < shape.k; ++k) {
      const auto left = shape.transpose_a ? k * shape.m + row
                                          : row * shape.k + k;
      const auto right = shape.transpose_b ? column * shape.k + k
                                           : k * shape.n + column;
      sum += value_of(a[left]) * value_of(b[right]);
    }
    c[i] = rounded<Result>(shape.accumulate ? value_of(c[i]) + sum : sum);
  }
};

template <class Operand, class Result>
void launch(const MatmulShape& shape, const void* a, const void* b, void* c,
            cudaStream_t stream) {
  launch_each(shape.m * shape.n,
              Element<Operand, Result>{shape, static_cast<const Operand*>(a),
                                       static_cast<const Operand*>(b),
                                       static_cast<Result*>(c)},
              stream);
}

} // namespace

void plain_product(const MatmulShape& shape, const void* a, const void* b,
                   void* c, cudaStream_t stream) {
  if (shape.operands == CudaElement::float32)
    launch<float, float>(shape, a, b, c, stream);
  else if (shape.result == CudaElement::float32)
    launch<bfloat16, float>(shape, a, b, c, stream);
  else
    launch<bfloat16, bfloat16>(shape, a, b, c, stream);
}

} // namespace troupe::kernels::cuda
