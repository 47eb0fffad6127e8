#pragma once

#include <cstddef>
#include <string>

namespace troupe {

/// `bytes` random ones as hex digits. Errors: InputError.
std::string random_hex(size_t bytes);

} // namespace troupe
