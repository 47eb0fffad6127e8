#pragma once

#include <string>
#include <vector>

namespace troupe {

/// Number of insertions, deletions, replacements and swaps of neighbours that
/// turn one word into the other (optimal string alignment).
size_t edit_distance(const std::string& left, const std::string& right);

/// Returns the known word nearest to a mistyped one; empty when none is near
/// (a third of its letters, at least two, at most four).
std::string nearest(const std::string& word,
                    const std::vector<std::string>& known);

} // namespace troupe
