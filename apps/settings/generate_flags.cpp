#include "apps/settings/binding.hpp"

namespace troupe {

using namespace binding;

namespace {

constexpr uint64_t max_tokens = 1'000'000'000;
constexpr uint64_t max_vocabulary = uint64_t{1} << 31;

} // namespace

std::vector<Flag> generate_flags() {
  constexpr auto group = "Text";
  std::vector<Flag> flags;
  const auto add = [&](const char* name, const char* value, FlagType type,
                       const char* fallback, const char* help,
                       const Binding& binding) {
    flags.push_back({name, value, type, on_generate, group, fallback, help,
                     binding.set, nullptr});
  };
  add("prompt", "TEXT", FlagType::text, "standard input",
      "the text to go on with, as it is",
      {[](Settings& s, const std::string& value) { s.generate.prompt = value; },
       nullptr});
  add("max-tokens", "N", FlagType::number, "200", "tokens to write",
      whole(FIELD(generate.max_tokens), 1, max_tokens));
  add("temperature", "X", FlagType::number, "0: always the likeliest token",
      "what logits are divided by before a token is drawn by its probability",
      real(FIELD(generate.temperature), {0, 1000, false, false}));
  add("top-k", "N", FlagType::number, "all",
      "draw one of the N likeliest tokens",
      whole(FIELD(generate.top_k), 1, max_vocabulary));
  add("top-p", "X", FlagType::number, "1",
      "draw one of the fewest likeliest tokens that have this share of the "
      "probability together",
      real(FIELD(generate.top_p), {0, 1, true, false}));
  add("seed", "N", FlagType::number, "0",
      "of what is drawn: the same seed, the same text",
      whole(FIELD(generate.seed), 0, std::numeric_limits<uint64_t>::max()));
  add("tokenizer", "FILE", FlagType::text, "that of the weights",
      "tokenizer.json whose tokens the weights are of, where none is kept with "
      "them",
      text(FIELD(generate.tokenizer)));
  add("ids", "", FlagType::toggle,
      "where the weights know no characters and are not of bytes",
      "read and write tokens as numbers, with blanks between them",
      toggle(FIELD(generate.ids), true));
  return flags;
}

} // namespace troupe
