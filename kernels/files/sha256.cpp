#include "kernels/base/hex.hpp"
#include "kernels/files/tensor_hash.hpp"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <stdexcept>

namespace troupe {

namespace {

static_assert(std::endian::native == std::endian::little,
              "weights are hashed and stored in the machine's own order");

class Sha256 {
public:
  Sha256() : context_(EVP_MD_CTX_new(), &EVP_MD_CTX_free) {
    check(context_ != nullptr
          && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
  }

  void add(const void* data, size_t bytes) {
    check(EVP_DigestUpdate(context_.get(), data, bytes) == 1);
  }

  std::string hex() {
    std::array<unsigned char, 32> digest;
    unsigned length = 0;
    check(EVP_DigestFinal_ex(context_.get(), digest.data(), &length) == 1
          && length == digest.size());
    return to_hex(digest);
  }

private:
  static void check(bool fine) {
    if (!fine)
      throw std::runtime_error("OpenSSL does not offer SHA-256");
  }

  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

} // namespace

struct TensorHash::State {
  Sha256 hash;
};

TensorHash::TensorHash() : state_(std::make_unique<State>()) {}

TensorHash::~TensorHash() = default;

void TensorHash::begin(const std::string& name,
                       const std::vector<uint64_t>& shape) {
  auto& hash = state_->hash;
  hash.add(name.c_str(), name.size() + 1);
  hash.add("float32", sizeof("float32"));
  const uint64_t dimensions = shape.size();
  hash.add(&dimensions, sizeof(dimensions));
  hash.add(shape.data(), shape.size() * sizeof(uint64_t));
}

void TensorHash::values(std::span<const float> values) {
  state_->hash.add(values.data(), values.size_bytes());
}

void TensorHash::add(const NamedTensor& tensor) {
  begin(tensor.name, tensor.shape);
  values(tensor.values);
}

std::string TensorHash::hex() {
  return state_->hash.hex();
}

std::string tensors_sha256(std::vector<NamedTensor> tensors) {
  std::sort(tensors.begin(), tensors.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  TensorHash hash;
  for (const auto& tensor : tensors)
    hash.add(tensor);
  return hash.hex();
}

std::string sha256(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.add(bytes.data(), bytes.size());
  return hash.hex();
}

} // namespace troupe
