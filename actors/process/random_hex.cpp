#include "actors/process/random_hex.hpp"

#include "kernels/base/error.hpp"
#include "kernels/base/hex.hpp"

#include <sys/random.h>

#include <vector>

namespace troupe {

std::string random_hex(size_t bytes) {
  std::vector<unsigned char> drawn(bytes); // 256 at most: they come at once
  if (::getrandom(drawn.data(), bytes, 0) != static_cast<ssize_t>(bytes))
    throw InputError("the system gives no random bytes");
  return to_hex(drawn);
}

} // namespace troupe
