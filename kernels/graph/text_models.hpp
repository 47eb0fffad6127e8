#pragma once

#include "kernels/graph/model_spec.hpp"

#include <cstdint>
#include <string>

namespace troupe::kernels {

/// A language model of GPT-2's kind: learnt positions, layer norms, one width.
struct GptSize {
  uint64_t layers = 0;
  uint64_t heads = 0;
  uint64_t width = 0;
  uint64_t window = 0;
  uint64_t vocabulary = 0; ///< 0: the data's
  double rate = 0;         ///< dropout
  double epsilon = 1e-5;   ///< of norms
  /// Every layer and norm has a bias, and the activation is GPT-2's own.
  bool biases = false;
  std::string activation = "gelu";
};

/// One of Llama's kind: rotary positions, RMS norms, SwiGLU, and heads of keys
/// and values that several heads of queries share.
struct LlamaSize {
  uint64_t layers = 0;
  uint64_t heads = 0;
  uint64_t key_heads = 0;
  uint64_t width = 0;
  uint64_t head = 0;   ///< elements of one
  uint64_t hidden = 0; ///< of SwiGLU's output
  uint64_t window = 0;
  uint64_t vocabulary = 0; ///< 0: the data's
  double rate = 0;
  double epsilon = 1e-5;
  double base = 10000; ///< of rotary angles
  bool tied = false;   ///< the last layer has the table of tokens
};

/// Writes such a model for text. Errors: InputError for other samples.
ModelSpec gpt_model(const std::string& name, const GptSize& size,
                    const SampleShape& sample);
ModelSpec llama_model(const std::string& name, const LlamaSize& size,
                      const SampleShape& sample);

} // namespace troupe::kernels
