#include "kernels/cpu/elementwise_loops.hpp"
#include "kernels/cpu/matrix.hpp"
#include "kernels/cpu/onednn.hpp"

#include <tuple>
#include <vector>

namespace troupe::kernels {

namespace {

using Words = std::vector<uint16_t>;
/// side_a, side_b, m, n, k, accumulate
using Key = std::tuple<Side, Side, size_t, size_t, size_t, bool>;

uint16_t* rounded(const float* values, size_t count, Words& to) {
  if (to.size() < count)
    to.resize(count);
  elementwise_loops().to_bfloat16(values, to.data(), count);
  return to.data();
}

} // namespace

struct Multiplier::Bfloat16 {
  struct Product {
    Key key;
    dnnl::matmul primitive;
    dnnl::memory a, b, c;
  };

  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::vector<Product> products; ///< a few: one for each shape seen
  Words a, b;

  Product& product(const Key& key) {
    for (auto& one : products)
      if (one.key == key)
        return one;
    const auto [side_a, side_b, m, n, k, accumulate] = key;
    using Memory = dnnl::memory;
    auto describe = [](size_t rows, size_t columns, Side side,
                       Memory::data_type type) {
      return Memory::desc(
        {static_cast<Memory::dim>(rows), static_cast<Memory::dim>(columns)},
        type,
        side == Side::as_is ? Memory::format_tag::ab : Memory::format_tag::ba);
    };
    const auto a_desc = describe(m, k, side_a, Memory::data_type::bf16);
    const auto b_desc = describe(k, n, side_b, Memory::data_type::bf16);
    const auto c_desc = describe(m, n, Side::as_is, Memory::data_type::f32);
    dnnl::primitive_attr attributes;
    if (accumulate) {
      dnnl::post_ops sum;
      sum.append_sum();
      attributes.set_post_ops(sum);
    }
    const auto how = describe_pass<dnnl::matmul>(engine, attributes, a_desc,
                                                 b_desc, c_desc);
    products.push_back({key, dnnl::matmul(how),
                        Memory(a_desc, engine, DNNL_MEMORY_NONE),
                        Memory(b_desc, engine, DNNL_MEMORY_NONE),
                        Memory(c_desc, engine, DNNL_MEMORY_NONE)});
    return products.back();
  }
};

Multiplier::Multiplier(Precision precision) {
  if (precision == Precision::bfloat16)
    bfloat16_ = std::make_unique<Bfloat16>();
}

Multiplier::~Multiplier() = default;

void Multiplier::multiply(Side side_a, Side side_b, size_t m, size_t n,
                          size_t k, const float* a, const float* b, float* c,
                          bool accumulate) {
  if (bfloat16_ == nullptr) {
    kernels::multiply(side_a, side_b, m, n, k, a, b, c, accumulate);
    return;
  }
  auto& product = bfloat16_->product({side_a, side_b, m, n, k, accumulate});
  product.a.set_data_handle(rounded(a, m * k, bfloat16_->a));
  product.b.set_data_handle(rounded(b, k * n, bfloat16_->b));
  product.c.set_data_handle(c);
  product.primitive.execute(bfloat16_->stream, {{DNNL_ARG_SRC, product.a},
                                                {DNNL_ARG_WEIGHTS, product.b},
                                                {DNNL_ARG_DST, product.c}});
  bfloat16_->stream.wait();
}

} // namespace troupe::kernels
