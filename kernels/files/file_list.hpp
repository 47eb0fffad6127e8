#pragma once

#include <string>
#include <vector>

namespace troupe {

/// The files that a specification's place names, in their order:
///   PATH       a file as it is called, whatever characters are in its name
///   PATTERN    with *, ? and […] in it as the shell has them; in the order of
///              the names' bytes, whatever the locale
///   @LIST      a file with a path or pattern a line, from the list's folder
///              on; blank lines and what begins with # are skipped
/// Errors: InputError (a pattern that nothing matches, a list that is empty,
/// a file that is named twice: its samples would count twice).
std::vector<std::string> list_files(const std::string& place);

/// Whether a place may name several files.
bool names_several(const std::string& place);

} // namespace troupe
