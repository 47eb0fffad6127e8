// A plug-in for tests: rules that are known in other words.

#include "kernels/server_code.hpp"

extern "C" void troupe_register();

void troupe_register() {
  troupe::register_gradient_filter("halve", [](const troupe::ServedSlice&,
                                               std::span<float> gradient) {
    for (auto& value : gradient)
      value *= 0.5f;
  });
  troupe::register_server_rule("plain_sgd", [](const troupe::ServedSlice& slice,
                                               const troupe::UpdateArgs& args) {
    for (size_t i = 0; i < args.count; ++i)
      args.out[i] = args.in[i] - slice.learning_rate * args.gradient_sum[i];
  });
}
