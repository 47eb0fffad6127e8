#include "actors/certificates/metrics_token.hpp"

#include "actors/certificates/private_file.hpp"
#include "kernels/base/hex.hpp"

#include <openssl/rand.h>

#include <array>
#include <filesystem>

namespace troupe {

std::string metrics_token_in(const std::string& path) {
  auto text = read_private(path, true);
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r'))
    text.pop_back();
  if (text.empty() || text.find_first_of(" \t\r\n") != text.npos)
    refuse_certificate(path, "is no token: one line without spaces; remove it "
                             "where a coordinator is to make one");
  return text;
}

std::string keep_metrics_token(const std::string& path) {
  std::error_code failure;
  if (!std::filesystem::exists(path, failure)) {
    std::array<unsigned char, 32> bytes{};
    if (RAND_bytes(bytes.data(), bytes.size()) != 1)
      refuse_certificate(path, "no random bytes to be had");
    write_private(path, to_hex(bytes) + '\n');
  }
  return metrics_token_in(path);
}

} // namespace troupe
