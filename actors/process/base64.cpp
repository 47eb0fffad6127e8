#include "actors/process/base64.hpp"

#include <openssl/evp.h>

#include <limits>

namespace troupe {
namespace {

const unsigned char* octets_of(const std::string& text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

} // namespace

std::string in_base64(const std::string& bytes) {
  std::string out((bytes.size() + 2) / 3 * 4 + 1, '\0'); // with a zero
  out.resize(static_cast<size_t>(
    EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                    octets_of(bytes), static_cast<int>(bytes.size()))));
  return out;
}

std::optional<std::string> of_base64(const std::string& text) {
  if (text.size() % 4 != 0 || text.size() > std::numeric_limits<int>::max())
    return std::nullopt;
  std::string out(text.size() / 4 * 3, '\0');
  const auto size =
    EVP_DecodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                    octets_of(text), static_cast<int>(text.size()));
  if (size < 0)
    return std::nullopt;
  // It does not tell how many bytes filled up the last four characters.
  const auto filled = text.ends_with("==") ? 2u : text.ends_with("=") ? 1u : 0u;
  out.resize(static_cast<size_t>(size) - filled);
  return out;
}

} // namespace troupe
