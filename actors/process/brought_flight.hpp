#pragma once

#include <cstdint>
#include <string>

namespace troupe {

/// A flight recorder's file as text without spaces, a third of it and less,
/// which another host can read. Errors: InputError naming the file.
std::string text_of_flight(const std::string& path);

/// Writes what text_of_flight() gave elsewhere to a new file. `added_ns`: to
/// its Unix times, by which that host's clock is behind this one's.
/// Errors: InputError: it is damaged, or the file cannot be written.
void write_flight(const std::string& text, const std::string& path,
                  int64_t added_ns);

} // namespace troupe
