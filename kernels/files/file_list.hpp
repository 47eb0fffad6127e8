#pragma once

#include "kernels/files/data_file.hpp"

#include <string>
#include <vector>

namespace troupe {

/// The files that a specification's place names, in their order:
///   PATH       a file as it is called, whatever characters are in its name
///   PATTERN    with *, ? and […] in it as the shell has them; in the order of
///              the names' bytes, whatever the locale
///   @LIST      a file with a path or pattern a line, from the list's folder
///              on; blank lines and what begins with # are skipped
///   s3://…     an object, a pattern, or with a slash at its end all that begin
///              with it
///   https://…  an object, whatever characters are in it
/// Lines of a list may be URLs, and a list may lie at one.
/// Errors: InputError (a pattern that nothing matches, a list that is empty,
/// a file that is named twice: its samples would count twice; a URL that
/// journals would keep a secret of).
std::vector<DataFile>
list_files(const std::string& place,
           const std::shared_ptr<const FileStore>& store = nullptr);

/// The one file that a place names. Errors: as list_files().
DataFile one_file(const std::string& place,
                  const std::shared_ptr<const FileStore>& store);

/// Whether a place may name several files.
bool names_several(const std::string& place);

} // namespace troupe
