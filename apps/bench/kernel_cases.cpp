#include "apps/bench/kernel_cases.hpp"

#include "kernels/base/buffer.hpp"
#include "kernels/base/error.hpp"
#include "kernels/compression/compressor.hpp"
#include "kernels/optimizer/norms.hpp"
#include "kernels/optimizer/optimizer.hpp"

#include <cmath>
#include <memory>
#include <random>

namespace troupe {

namespace {

constexpr size_t out_of_cache = size_t{4} << 20; // elements
constexpr size_t slice = size_t{1} << 18;        // 1 MiB

Buffer drawn(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> values(-1, 1);
  Buffer result{count};
  for (auto& value : result.span())
    value = values(random);
  return result;
}

Buffer zeros(size_t count) {
  Buffer result{count};
  result.fill(0);
  return result;
}

std::string elements_text(size_t count) {
  return std::to_string(count >> 10) + " Ki";
}

/// One parameter's memory under one rule.
struct Updated {
  Updated(OptimizerKind kind, size_t count)
    : values(drawn(count, 1)),
      gradient(drawn(count, 2)),
      state(zeros(2 * count)) {
    options.kind = kind;
    args.gradient_sum = gradient.data();
    args.samples = 64;
    args.in = args.out = values.data();
    args.state_in = args.state_out = state.data();
    args.state_stride = count;
    args.count = count;
  }

  /// What the first step makes of a value, in float64.
  double first_step(double p, double g) const {
    const double rate = args.learning_rate;
    const auto size = std::abs(g);
    switch (options.kind) {
      case OptimizerKind::sgd:
      case OptimizerKind::momentum:
        return p - rate * g;
      case OptimizerKind::nesterov:
        return p - rate * (1 + double{options.momentum}) * g;
      case OptimizerKind::rmsprop:
        return p
               - rate * g
                   / (std::sqrt(1 - double{options.beta2}) * size
                      + options.epsilon);
      case OptimizerKind::ftrl:
        return (size * p - rate * g) / (options.ftrl_beta + size);
      case OptimizerKind::adam:
      case OptimizerKind::adamw:
      case OptimizerKind::adagrad:
      case OptimizerKind::lamb:
        break;
    }
    return p - rate * g / (size + options.epsilon);
  }

  void verify() {
    const auto before = drawn(args.count, 1);
    update(options, args);
    for (size_t i = 0; i < args.count; i += 997)
      check_near(to_string(options.kind), values.data()[i],
                 first_step(before.data()[i], gradient.data()[i] / 64.0), 1e-6);
  }

  OptimizerOptions options;
  Buffer values;
  Buffer gradient;
  Buffer state;
  UpdateArgs args;
};

std::vector<KernelCase> update_case(OptimizerKind kind, size_t count) {
  auto memory = std::make_shared<Updated>(kind, count);
  KernelCase result;
  result.name = to_string(kind);
  result.shape = elements_text(count);
  result.bytes = count * sizeof(float) * (3 + 2 * state_slots(kind));
  result.verify = [memory] { memory->verify(); };
  result.run = [memory] { update(memory->options, memory->args); };
  return {result};
}

std::vector<KernelCase> norm_case(size_t count) {
  struct Memory {
    Buffer values;
    std::vector<double> blocks;
  };
  auto memory = std::make_shared<Memory>(
    Memory{drawn(count, 1), std::vector<double>(norm_blocks(count))});
  KernelCase result;
  result.name = "squares";
  result.shape = elements_text(count);
  result.bytes = count * sizeof(float);
  result.run = [memory] {
    square_sum_blocks(memory->values.data(), memory->values.size(),
                      memory->blocks.data());
  };
  result.verify = [memory, run = result.run] {
    run();
    double sum = 0;
    for (auto value : memory->values.span())
      sum += double{value} * value;
    check_near("squares", tree_sum(memory->blocks), sum, 1e-10);
  };
  return {result};
}

/// A slice on its way.
struct Sent {
  explicit Sent(const std::string& text)
    : compressor(make_compressor(parse_compression(text))),
      values(drawn(slice, 1)),
      residual(zeros(slice)),
      sum(zeros(slice)),
      bytes(compressor->bytes(slice)) {}

  void compress() {
    compressor->compress(values.data(), residual.data(), slice, bytes.data());
  }

  void add() { compressor->add(bytes, slice, sum.data()); }

  void verify(const std::string& what) {
    compress();
    add();
    for (size_t i = 0; i < slice; ++i)
      check_near(what, double{sum.data()[i]} + residual.data()[i],
                 values.data()[i], 1e-6);
  }

  std::unique_ptr<Compressor> compressor;
  Buffer values;
  Buffer residual;
  Buffer sum;
  std::vector<std::byte> bytes;
};

std::vector<KernelCase> compression_case(const std::string& text) {
  auto memory = std::make_shared<Sent>(text);
  KernelCase compress;
  compress.name = text + " compress";
  compress.shape = elements_text(slice);
  compress.bytes = 3 * slice * sizeof(float) + memory->bytes.size();
  compress.run = [memory] { memory->compress(); };
  compress.verify = [memory, text] { memory->verify(text); };
  KernelCase add;
  add.name = text + " add";
  add.shape = compress.shape;
  add.bytes = memory->bytes.size()
              + 2 * sizeof(float)
                  * (text.starts_with("topk") ? memory->bytes.size() / 8
                                              : slice);
  add.run = [memory] { memory->add(); };
  add.verify = [] {}; // by the one before
  return {compress, add};
}

} // namespace

std::vector<CaseMaker> update_cases() {
  std::vector<CaseMaker> result;
  for (auto count : {out_of_cache, slice}) {
    for (auto kind :
         {OptimizerKind::sgd, OptimizerKind::momentum, OptimizerKind::nesterov,
          OptimizerKind::adam, OptimizerKind::adamw, OptimizerKind::adagrad,
          OptimizerKind::rmsprop, OptimizerKind::ftrl, OptimizerKind::lamb})
      result.emplace_back([=] { return update_case(kind, count); });
    result.emplace_back([=] { return norm_case(count); });
  }
  return result;
}

std::vector<CaseMaker> compression_cases() {
  std::vector<CaseMaker> result;
  for (const auto* text : {"fp16", "bf16", "int8", "onebit", "topk:0.01"})
    result.emplace_back([=] { return compression_case(text); });
  return result;
}

void check_near(const std::string& what, double value, double reference,
                double tolerance) {
  if (std::abs(value - reference)
      <= tolerance * std::max(1.0, std::abs(reference)))
    return;
  throw InputError("bench kernels: " + what + " gives " + std::to_string(value)
                   + " where a plain reference gives "
                   + std::to_string(reference) + ": nothing is measured");
}

} // namespace troupe
