#pragma once

namespace troupe {

extern const char* const version; ///< "0.1.0"

} // namespace troupe
