#include "apps/bench/kernel_cases.hpp"
#include "apps/bench/operator_sites.hpp"
#include "kernels/engine/device.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>

namespace troupe {

namespace {

using kernels::OpArgs;

/// An operator with its memory on the CPU.
class Bench {
public:
  explicit Bench(const OperatorSite& site)
    : site_(site), device_(kernels::make_device({}, Precision::float32)) {
    make_graph();
    operator_ = device_->make_operator(graph_, 0, site.rows);
    fill();
  }

  void forward() { operator_->forward(args_); }
  void backward() { operator_->backward(args_); }

  void verify_forward() {
    forward();
    const auto count = site_.rows * elements(site_.output);
    for (size_t i = 0; i < 300; ++i) {
      const auto at = random_() % count;
      check_near(site_.name, args_.output[at],
                 site_.reference(site_, args_, at), 1e-4);
    }
  }

  /// Compares the length of the gradient with the slope of the output along it.
  void verify_backward() {
    forward();
    backward();
    double squares = 0;
    double largest = 0;
    for (const auto& [values, gradient, count] : moved_)
      for (size_t i = 0; i < count; ++i) {
        squares += double{gradient[i]} * gradient[i];
        largest = std::max(largest, std::abs(double{gradient[i]}));
      }
    const auto step = 2e-3 / largest;
    const auto ahead = moved(step);
    const auto behind = moved(-2 * step);
    moved(step);
    check_near(std::string{site_.name} + " backward, along its gradient,",
               (ahead - behind) / (2 * step) / squares, 1, 0.03);
  }

private:
  struct Moved {
    float* values;
    float* gradient;
    size_t count;
  };

  void make_graph() {
    graph_.values.push_back(
      {"x", site_.input, site_.ids ? ValueType::int32 : ValueType::float32});
    graph_.values.push_back({"y", site_.output, ValueType::float32});
    graph_.sample.vocabulary =
      static_cast<uint32_t>(site_.attributes.vocabulary);
    Op op;
    op.kind = site_.kind;
    op.name = site_.name;
    op.inputs = {0};
    op.output = 1;
    op.attributes = site_.attributes;
    for (const auto& shape : site_.parameters) {
      op.parameters.push_back(static_cast<uint32_t>(graph_.parameters.size()));
      Parameter parameter;
      parameter.name = std::to_string(graph_.parameters.size());
      parameter.shape = shape;
      graph_.parameters.push_back(parameter);
    }
    graph_.ops.push_back(op);
  }

  float* drawn(size_t count) {
    std::uniform_real_distribution<float> draw(-1, 1);
    auto* values = device_->allocate(count);
    for (size_t i = 0; i < count; ++i)
      values[i] = draw(random_);
    return values;
  }

  void fill() {
    const auto rows = site_.rows;
    const auto inputs = rows * elements(site_.input);
    const auto outputs = rows * elements(site_.output);
    args_.rows = rows;
    args_.training = true;
    auto* x = site_.ids ? device_->allocate(inputs) : drawn(inputs);
    if (site_.ids)
      for (size_t i = 0; i < inputs; ++i)
        reinterpret_cast<int32_t*>(x)[i] =
          static_cast<int32_t>(random_() % site_.attributes.vocabulary);
    args_.inputs = {x};
    args_.output = device_->allocate(outputs);
    args_.output_gradient = drawn(outputs);
    weights_.assign(args_.output_gradient, args_.output_gradient + outputs);
    args_.input_gradients = {site_.ids ? nullptr : device_->allocate(inputs)};
    args_.accumulate_inputs = {0};
    if (!site_.ids)
      moved_.push_back({x, args_.input_gradients[0], inputs});
    for (const auto& shape : site_.parameters) {
      const auto count = elements(shape);
      auto* values = drawn(count);
      auto* gradient = device_->allocate(count);
      args_.parameters.push_back(values);
      args_.parameter_gradients.push_back(gradient);
      args_.accumulate_parameters.push_back(0);
      moved_.push_back({values, gradient, count});
    }
    const auto needs = operator_->needs();
    args_.saved =
      device_->allocate(std::max<uint64_t>(1, needs.saved.of(rows)));
    args_.scratch =
      device_->allocate(std::max<uint64_t>(1, needs.scratch.of(rows)));
  }

  /// The weighted sum of the outputs after a step along the gradient.
  double moved(double step) {
    for (const auto& [values, gradient, count] : moved_)
      for (size_t i = 0; i < count; ++i)
        values[i] += static_cast<float>(step * gradient[i]);
    forward();
    double sum = 0;
    for (size_t i = 0; i < weights_.size(); ++i)
      sum += double{args_.output[i]} * weights_[i];
    return sum;
  }

  OperatorSite site_;
  Graph graph_;
  std::unique_ptr<kernels::Device> device_;
  std::unique_ptr<kernels::Operator> operator_;
  OpArgs args_;
  std::vector<float> weights_; ///< the output's gradient as drawn
  std::vector<Moved> moved_;
  std::mt19937 random_{1};
};

std::vector<KernelCase> cases_of(const OperatorSite& site) {
  auto bench = std::make_shared<Bench>(site);
  KernelCase forward;
  forward.name = std::string{site.name} + " forward";
  forward.shape = site.shape;
  forward.flops = site.flops;
  forward.bytes = site.forward_bytes;
  forward.run = [bench] { bench->forward(); };
  forward.verify = [bench] { bench->verify_forward(); };
  auto backward = forward;
  backward.name = std::string{site.name} + " backward";
  backward.flops = 2 * site.flops;
  backward.bytes = site.backward_bytes;
  backward.run = [bench] { bench->backward(); };
  backward.verify = [bench] { bench->verify_backward(); };
  return {forward, backward};
}

} // namespace

KernelCase square_product(size_t n) {
  return cases_of(
           sites::dense(static_cast<uint32_t>(n), {n}, n, Activation::none))
    .front();
}

std::vector<CaseMaker> operator_cases() {
  using namespace sites;
  const OperatorSite all[] = {
    dense(64, {784}, 512, Activation::relu),     // mlp
    dense(64, {512}, 256, Activation::relu),     // mlp
    dense(64, {256}, 10, Activation::none),      // mlp
    dense(16, {64, 128}, 384, Activation::none), // transformer
    dense(16, {64, 128}, 512, Activation::relu), // transformer
    conv(16, 28, 32, 64, 1),                     // cnn
    conv(16, 32, 16, 16, 1),                     // resnet20
    conv(16, 16, 32, 64, 2),                     // resnet20
    conv(16, 16, 32, 32, 1),                     // resnet20
    conv(16, 8, 64, 64, 1),                      // resnet20
    conv(2, 56, 64, 64, 1),                      // ResNet-50
    conv(2, 56, 64, 256, 1, 1),                  // ResNet-50
    conv(2, 28, 128, 128, 2),                    // ResNet-50
    conv(2, 14, 256, 256, 1),                    // ResNet-50
    conv(2, 7, 512, 512, 1),                     // ResNet-50
    conv(16, 28, 64, 64, 1, 3, 64),              // MobileNet
    attention(16, 64, 128, 4),                   // transformer
    by_rows(OpKind::layer_norm, "layer_norm", 16, {64, 128}),
    by_rows(OpKind::softmax, "softmax", 16, {64, 512}),
    embedding(16, 64, 128, 96),      // transformer
    embedding(256, 26, 16, 100'000), // dlrm
  };
  std::vector<CaseMaker> result;
  for (const auto& site : all)
    result.emplace_back([site] { return cases_of(site); });
  return result;
}

} // namespace troupe
