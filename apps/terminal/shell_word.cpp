#include "apps/terminal/shell_word.hpp"

namespace troupe {

std::string shell_word(const std::string& text) {
  std::string out = "'";
  for (const char letter : text)
    out += letter == '\'' ? std::string{"'\\''"} : std::string{letter};
  return out + '\'';
}

} // namespace troupe
