#include "actors/page/nonce.hpp"

#include "actors/process/random_hex.hpp"

namespace troupe {

std::string random_nonce() {
  return random_hex(16);
}

std::string with_nonce(std::string text, const std::string& nonce) {
  const std::string mark = "NONCE";
  for (auto at = text.find(mark); at != text.npos; at = text.find(mark, at))
    text.replace(at, mark.size(), nonce);
  return text;
}

} // namespace troupe
