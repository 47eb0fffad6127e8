#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace troupe {

/// Columns that UTF-8 takes on a terminal: one for each character.
size_t columns_of(std::string_view text);

/// The first characters of UTF-8, at most so many columns.
std::string cut_to(size_t columns, const std::string& text);

/// The same, with "…" in the last column where something is left out.
std::string shortened_to(size_t columns, const std::string& text);

} // namespace troupe
