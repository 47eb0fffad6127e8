#pragma once

#include "actors/process/flight_recorder.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace troupe {

/// A second of a role's life, and how long it did what in it.
struct FlightSecond {
  uint64_t number = 0;     ///< of its host's steady clock, from 1 on
  uint64_t first_step = 0; ///< of those that it was busy with; 0: of none
  uint64_t last_step = 0;  ///< the same
  std::array<uint64_t, activities> ns{}; ///< of all threads together
};

/// The last seconds of what one process of a role recorded, by time; those in
/// which it recorded nothing are not there. A recorder keeps them beside its
/// spans, of which a quick role has more in a minute than it keeps.
struct FlightSeconds {
  static constexpr uint64_t shown = 60;

  Flight flight; ///< without spans
  std::vector<FlightSecond> seconds{};
  /// When a second begins, in Unix milliseconds.
  uint64_t unix_ms(const FlightSecond& second) const;
};

/// Reads them from a recorder's file, which its process may be writing to.
/// Errors: InputError naming the file: it is none.
FlightSeconds read_flight_seconds(const std::string& path);

/// Those of a folder, as read_flights().
struct AllFlightSeconds {
  std::vector<FlightSeconds> all;
  size_t passed_over = 0;
};
AllFlightSeconds read_all_flight_seconds(const std::string& folder);

} // namespace troupe
