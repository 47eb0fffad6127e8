#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace troupe {

/// A regular expression as tokenizers have them: Perl's syntax, over Unicode;
/// ^ and $ stand at each line. Owner: one thread at a time.
class Pattern {
public:
  /// `where`: the file that holds it, for errors.
  /// Errors: InputError (it is no such expression).
  Pattern(const std::string& expression, const std::string& where);

  struct Match {
    size_t begin = 0; ///< in bytes
    size_t end = 0;
  };
  /// The first match that is not empty and begins at `from` or later; nullopt:
  /// there is none. `text` is UTF-8, and `from` the first byte of a character.
  /// Errors: InputError (it takes too many steps or too much memory).
  std::optional<Match> find(std::string_view text, size_t from);

private:
  struct Compiled;
  std::shared_ptr<Compiled> compiled_;
  std::string where_;
};

} // namespace troupe
