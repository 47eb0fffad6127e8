// tokens/tokenizer.cpp: two bytes of length, a tokenizer.json so long, a text.

#include "kernels/tokens/tokenizer.hpp"

#include "kernels/files/shown_text.hpp"
#include "tests/fuzz/input.hpp"

using namespace troupe;
using troupe::fuzz::holds;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Input input{data, size};
  const auto file = input.take(input.number(2));
  const auto text = input.text();
  fuzz::accepted([&] {
    Tokenizer tokenizer{{file.begin(), file.end()}, "tokenizer.json"};
    Tokenizer kept{tokenizer.json(), "weights"};
    holds(kept.json() == tokenizer.json(), "what is kept is the same");
    if (!is_utf8(text))
      return;
    std::vector<int32_t> tokens;
    std::vector<int32_t> again;
    tokenizer.encode(text, tokens);
    kept.encode(text, again);
    holds(tokens == again, "what is kept gives the same tokens");
    for (auto token : tokens)
      holds(token >= 0 && static_cast<uint32_t>(token) < tokenizer.vocabulary(),
            "a token is one of the vocabulary");
  });
  return 0;
}
