#include "actors/page/nonce.hpp"

#include <sys/random.h>

#include <cstdint>
#include <cstdio>
#include <stdexcept>

namespace troupe {

std::string random_word() {
  uint64_t words[2];
  if (getrandom(words, sizeof words, 0) != sizeof words)
    throw std::runtime_error("no random numbers");
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx",
                static_cast<unsigned long long>(words[0]),
                static_cast<unsigned long long>(words[1]));
  return text;
}

std::string with_nonce(std::string text, const std::string& word) {
  const std::string mark = "NONCE";
  for (auto at = text.find(mark); at != text.npos; at = text.find(mark, at))
    text.replace(at, mark.size(), word);
  return text;
}

} // namespace troupe
