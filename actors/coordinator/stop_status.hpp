#pragma once

#include <cstdint>
#include <string>

namespace troupe {

/// The exit status of a run that was ended for this reason: 128 and the number
/// of the signal.
inline int stop_status(const std::string& why) {
  return why == "terminated" ? 143 : why == "hung up" ? 129 : 130;
}
/// Whether a process with this exit status was told to end.
inline bool is_stop_status(int status) {
  return status == 129 || status == 130 || status == 143;
}

/// What observers are told when a coordinator goes on from a journal.
inline std::string back_line(uint64_t term) {
  return "the coordinator is back, its term is " + std::to_string(term);
}

} // namespace troupe
