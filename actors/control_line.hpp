#pragma once

#include "actors/interfaces.hpp"

#include <chrono>
#include <string>

namespace troupe {

struct ControlLineOptions {
  coordinator_actor first; ///< reached already
  /// HOST:PORT, where the next one will listen; several, with commas: there or
  /// there.
  std::string address;
  RoleId role; ///< who is on this end; coordinator: an observer
  std::chrono::milliseconds deadline{30'000};
};

/// Spawns what stands for the coordinator in a process of its own: one handle
/// that lasts while coordinators come and go.
///
///   up ---- the coordinator is lost ---> away --- reached one of a higher term
///    ^                                    |                        |
///    +------------------------------------|------------------------+
///                                         +--- past the deadline: ends
///
/// What it is sent goes on to the coordinator, with its sender. A new one is
/// told again who is here (Join, Attach), and what must not be lost meanwhile;
/// all else that is sent while it is away is dropped, requests are refused. A
/// member that finds the same coordinator again has been left out by it: then
/// the line ends, and the role with it. Where there are several addresses, a
/// coordinator that is silent is left for one of a higher term elsewhere.
coordinator_actor spawn_control_line(caf::actor_system& system,
                                     ControlLineOptions options);

} // namespace troupe
