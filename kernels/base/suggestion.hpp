#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

/// Number of insertions, deletions, replacements and swaps of neighbours that
/// turn one word into the other (optimal string alignment).
size_t edit_distance(const std::string& left, const std::string& right);

/// Returns the known word nearest to a mistyped one; empty when none is near
/// (a third of its letters, at least two, at most four).
std::string nearest(const std::string& word,
                    const std::vector<std::string>& known);

/// A word of another program, in lower case and without _ and -, and the one
/// that means the same here.
struct ForeignWord {
  std::string_view theirs;
  std::string_view ours;
};

/// The known word that somebody most likely means: one that is spelled alike
/// but for case, _ and -; else that of a foreign word; else the nearest. Empty:
/// there is none.
std::string meant(const std::string& word,
                  const std::vector<std::string>& known,
                  std::span<const ForeignWord> foreign);

} // namespace troupe
