// The tokens that a tokenizer.json makes of texts:
//   tokens TOKENIZER FILE…    a line of numbers for each file
// and on standard error how fast that was.

#include "kernels/base/error.hpp"
#include "kernels/base/seconds_since.hpp"
#include "kernels/tokens/tokenizer.hpp"

#include <cstdio>
#include <fstream>
#include <iterator>

namespace {

std::string contents(const char* path) {
  std::ifstream file{path, std::ios::binary};
  if (!file)
    throw troupe::InputError(std::string{path} + ": cannot be read");
  return {std::istreambuf_iterator<char>{file}, {}};
}

} // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fputs("usage: tokens TOKENIZER FILE...\n", stderr);
    return 2;
  }
  try {
    troupe::Tokenizer tokenizer{contents(argv[1]), argv[1]};
    double seconds = 0;
    size_t bytes = 0;
    for (int i = 2; i < argc; ++i) {
      const auto text = contents(argv[i]);
      std::vector<int32_t> out;
      const auto start = troupe::SteadyClock::now();
      tokenizer.encode(text, out);
      seconds += troupe::seconds_since(start);
      bytes += text.size();
      for (auto token : out)
        std::printf("%d ", token);
      std::puts("");
    }
    std::fprintf(stderr, "%zu bytes in %.6f s\n", bytes, seconds);
    return 0;
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
  }
}
