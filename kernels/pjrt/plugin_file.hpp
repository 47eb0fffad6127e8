#pragma once

#include <string>

namespace troupe::kernels::pjrt {

/// By which a plugin gives its table of functions.
inline constexpr const char* plugin_entry = "GetPjrtApi";
/// Says that a library has none.
std::string lacks_entry();

/// Why a file cannot be opened as a plugin without harm: the loader dies of a
/// library whose end is missing. Empty: nothing is known against it.
/// Errors: InputError where it cannot be read.
std::string plugin_file_mistake(const std::string& file);

/// What a program's bits follow besides the program: the plugin's contents,
/// flags for its compiler in the environment (XLA_FLAGS, LIBTPU_INIT_ARGS), and
/// of a compiler for processors this machine's.
/// Errors: InputError where the file cannot be read.
std::string compiler_name(const std::string& file, const std::string& platform);

} // namespace troupe::kernels::pjrt
