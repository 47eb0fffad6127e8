#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace troupe {

/// What a tokenizer does to a text before it looks at it, step by step.
class NormalForm {
public:
  enum class Kind { nfc, nfd, nfkc, nfkd, prepend, replace };
  struct Step {
    Kind kind;
    std::string from; ///< replace: this text
    std::string to;   ///< replace, prepend: by this one
  };

  /// Errors: InputError naming `where` (an empty text is replaced, or one by a
  /// much longer one: a text may grow to sixteen times its length in all).
  void add(Step step, const std::string& where);
  bool empty() const { return steps_.empty(); }

  /// Errors: std::bad_alloc. `text` is UTF-8.
  std::string apply(std::string_view text) const;

private:
  std::vector<Step> steps_;
  double growth_ = 1; ///< of replaced texts, at most
};

} // namespace troupe
