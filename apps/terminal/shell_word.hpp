#pragma once

#include <string>

namespace troupe {

/// A word that a shell takes as it stands, whatever is in it.
std::string shell_word(const std::string& text);

} // namespace troupe
