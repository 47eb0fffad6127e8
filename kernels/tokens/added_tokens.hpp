#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

/// Texts that are a token each, wherever they stand, before anything else is
/// looked at: "<|endoftext|>".
class AddedTokens {
public:
  /// `text`: an empty one stands nowhere and is left out.
  void add(std::string text, int32_t token);

  struct Found {
    size_t begin; ///< in bytes
    size_t end;
    int32_t token;
  };
  /// The first one at `from` or later, the longest of several there; begins
  /// behind the text where there is none.
  Found find(std::string_view text, size_t from) const;

private:
  struct Text {
    std::string text;
    int32_t token;
  };
  bool empty_ = true;
  std::array<std::vector<Text>, 256> texts_; ///< by first byte, longest first
};

} // namespace troupe
