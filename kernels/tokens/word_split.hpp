#pragma once

#include "kernels/tokens/pattern.hpp"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

/// How a tokenizer cuts a text into words, none of whose tokens goes over into
/// another: step by step, each cutting what the one before left. Owner: one
/// thread at a time.
class WordSplit {
public:
  enum class Keep {
    all,     ///< what matches and what lies between, each by itself
    matches, ///< that alone
    between, ///< that alone
  };
  /// Cuts at what matches.
  void cut(Pattern pattern, Keep keep);
  /// Cuts before each `marker`.
  void cut_before(const std::string& marker);

  using Take = std::function<void(std::string_view word)>;
  /// Hands on the words of a text, which are valid during the call.
  /// Errors: InputError, as Pattern::find().
  void split(std::string_view text, const Take& take) { go_on(0, text, take); }

private:
  struct Step {
    std::optional<Pattern> pattern; ///< none: the marker
    Keep keep = Keep::all;
    std::string marker;
  };

  void go_on(size_t step, std::string_view text, const Take& take);
  void match(size_t step, std::string_view text, const Take& take);

  std::vector<Step> steps_;
};

} // namespace troupe
