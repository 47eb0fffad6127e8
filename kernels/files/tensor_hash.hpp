#pragma once

#include "kernels/files/safetensors.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace troupe {

/// SHA-256 over tensors as tensors_sha256() defines it, of values that come
/// piece by piece. The caller keeps to the order of names.
class TensorHash {
public:
  TensorHash();
  ~TensorHash();
  TensorHash(const TensorHash&) = delete;
  TensorHash& operator=(const TensorHash&) = delete;

  /// All values() that follow are of this tensor.
  void begin(const std::string& name, const std::vector<uint64_t>& shape);
  void values(std::span<const float> values);
  void add(const NamedTensor& tensor);
  /// Ends it. Lower-case hex.
  std::string hex();

private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace troupe
