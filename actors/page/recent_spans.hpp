#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <string>

namespace troupe {

/// What roles did last, from the recorders in a folder of this host, as an
/// object: `end_ms`, the Unix time of the newest end, and `roles` {name:
/// [[begin and end in whole µs before that, number of the activity, step], …]}.
/// Roles share `most` spans; what ended more than ten seconds before is left
/// out. Null: no recorder here has written lately.
nlohmann::ordered_json recent_spans(const std::string& folder, size_t most);

} // namespace troupe
