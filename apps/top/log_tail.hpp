#pragma once

#include <cstddef>
#include <deque>
#include <string>

namespace troupe {

/// The last lines of what a role's process printed, of a run with this
/// --log-dir; what no terminal should get is '?'. One line says why there are
/// none.
std::deque<std::string> log_tail(const std::string& log_dir,
                                 const std::string& role);

} // namespace troupe
