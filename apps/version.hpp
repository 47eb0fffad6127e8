#pragma once

#include <string>

namespace troupe {

/// The program's version, "0.1.0".
std::string version();

} // namespace troupe
