#pragma once

#include "actors/wire/interfaces.hpp"

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace troupe {

/// Whose line it is, and where its coordinators are.
struct ControlLineOptions {
  coordinator_actor first; ///< reached already
  /// HOST:PORT, where the next one will listen; several, with commas: there or
  /// there.
  std::string address;
  RoleId role; ///< who is on this end; coordinator, evaluator: an observer
  std::chrono::milliseconds deadline{30'000};
  /// Whether the next one is on its way, though it does not listen yet, as
  /// where it reads its data: then the deadline does not count; empty: not
  /// known.
  std::function<bool()> comes{};
  /// Says that a member was left out and joins again, one line; empty: one that
  /// is left out ends.
  std::function<void(const std::string& line)> tell{};
  /// Told whose certificates hold no longer, again and again.
  std::function<void(const std::vector<RevokedMember>&)> revoked{};
  /// Ends the connections to the coordinator, which is on another host and does
  /// not answer; empty: they are left to the system.
  std::function<void()> hang_up{};
  /// Whether the coordinator's host has not answered for so long either, though
  /// this one asked again; empty: a silent coordinator tells. Where that host
  /// answers, its processor is busy, or the process stands still: that counts
  /// as loss after a quarter of a minute.
  std::function<bool(std::chrono::milliseconds patience)> cut_off{};
  /// Ends the coordinator's process, which has not answered for a quarter of a
  /// minute: as long as this process ran, so that pauses do not count; empty:
  /// it is waited for.
  std::function<void()> replace{};
  /// Tries whether links to others work; calls reached(whether all do) once,
  /// from any thread.
  std::function<void(const std::vector<LinkedRole>& others,
                     std::function<void(bool)> reached)>
    probe{};
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
/// all else that is sent while it is away is dropped, requests are refused.
/// Where there are several addresses, a coordinator that is silent is left for
/// one of a higher term elsewhere.
///
/// A member asks whether it is one still at the pace of its signs of life, four
/// times a second unless there are many members. One that was left out and
/// lives joins again, with all that it holds, as a new incarnation: the role is
/// told by Readmit, the coordinator by Join. With a supervisor, which starts
/// another one, the line ends, and the role with it.
coordinator_actor spawn_control_line(caf::actor_system& system,
                                     ControlLineOptions options);

} // namespace troupe
