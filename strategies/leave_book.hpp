#pragma once

#include "strategies/role_id.hpp"

#include <cstdint>
#include <deque>
#include <set>
#include <string>

namespace troupe {

/// Roles that were told to leave: a signal came to their process. Decides what
/// that means for the run:
///
///   some of them are told  one after the other leaves, the run goes on
///   all of one kind        the run ends, as if its launcher had been told;
///                          kinds are workers, shards, stages, tensor members
///
/// Nothing is decided for `patience_ms`: where every process of a job is told
/// at once, launcher and coordinator say so meanwhile, in whatever order the
/// signals came, and nobody begins to hand anything over.
/// Pure: times are milliseconds of any steady clock.
class LeaveBook {
public:
  struct Options {
    uint64_t patience_ms = 300;
  };
  enum class Kind : uint8_t { wait, leave, end_run };
  struct Verdict {
    Kind kind = Kind::wait;
    RoleId role{};      ///< which leaves; of end_run, who was told first
    std::string reason; ///< why the run ends: "all workers were told to leave"
    std::string why;    ///< what they were told: "terminated"
  };

  LeaveBook() = default;
  explicit LeaveBook(const Options& options) : options_(options) {}

  /// The role was told; saying so again changes nothing.
  void ask(RoleId role, const std::string& why, uint64_t now_ms);
  /// It has left, or died: whoever comes in its place was told nothing.
  void forget(RoleId role);
  /// What to do now, in a job of these roles. Who is to leave is forgotten.
  Verdict look(const std::set<RoleId>& roles, uint64_t now_ms);

private:
  struct Told {
    RoleId role{};
    std::string why;
    uint64_t since_ms = 0;
  };

  /// Whether everybody of this kind was told, and there is anybody.
  bool all_told(const std::set<RoleId>& roles, RoleKind kind) const;

  Options options_;
  std::deque<Told> told_; ///< in the order in which they said so
};

} // namespace troupe
