#pragma once

#include "kernels/tokens/added_tokens.hpp"
#include "kernels/tokens/byte_pairs.hpp"
#include "kernels/tokens/normal_form.hpp"
#include "kernels/tokens/word_split.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

/// Byte-pair encoding as a `tokenizer.json` of the tokenizers library says it:
/// of bytes (GPT-2, Llama 3, Qwen) or of characters (Llama 2, Mistral). A text
/// becomes the tokens of `encode(text, add_special_tokens=False)` there: none
/// is put around it. Owner: one thread at a time.
class Tokenizer {
public:
  static constexpr size_t max_bytes = size_t{64} << 20; ///< of its file
  static constexpr int32_t max_tokens = 1 << 21;

  /// `json`: the file's text; `where`: its name, for errors.
  /// Errors: InputError (damaged; of another kind, or with a step that is not
  /// built).
  Tokenizer(const std::string& json, const std::string& where);

  /// Tokens are below this.
  uint32_t vocabulary() const { return static_cast<uint32_t>(pieces_.size()); }

  /// Adds the tokens of a text, which is UTF-8. Returns how many characters (or
  /// bytes) have none and were left out.
  /// Errors: InputError (words that cannot be told apart in reasonable time).
  uint64_t encode(std::string_view text, std::vector<int32_t>& out);

  /// The bytes that a token stands for within a text: a part of a character
  /// may be.
  const std::string& text_of(int32_t token) const {
    return pieces_.at(static_cast<size_t>(token));
  }

  /// What of the file it is made of, as such a file on one line.
  const std::string& json() const { return json_; }

private:
  class Reader;

  uint64_t encode_words(std::string_view text, bool first,
                        std::vector<int32_t>& out);

  std::string where_;
  std::string json_;
  AddedTokens raw_;    ///< looked for in a text as it is
  AddedTokens normal_; ///< looked for in what is normalized
  NormalForm form_;
  NormalForm blanks_; ///< what they become behind it
  std::string prefix_;
  bool prefix_first_ = false; ///< at the text's beginning alone
  WordSplit words_;
  std::optional<BytePairs> pairs_;
  std::vector<std::string> pieces_;
};

} // namespace troupe
