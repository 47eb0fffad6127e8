#pragma once

#include "strategies/role_id.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <string>

namespace troupe {

/// A process that plays a role, or is about to. Empty where roles are actors of
/// one process.
struct RoleProcess {
  std::string host;
  uint32_t process = 0;

  friend bool operator==(const RoleProcess&, const RoleProcess&) = default;
};

/// Decides who may have a role's name, so that a second process of that name
/// does not displace the first:
///
///   free      nobody has it, or its supervisor has said that its process died
///   waits     somebody has it, and has given no sign of life since
///   refused   who has it has given one: it lives
///
/// A name is *claimed* from a process's first word until it joins, and *held*
/// from then on. A coordinator that follows another waits a while for those who
/// were members.
/// Pure: times are milliseconds of any steady clock.
class RoleNames {
public:
  struct Options {
    /// A sign of life counts from so long after the question: until then it may
    /// have been under way when its sender died.
    uint64_t sign_ms = 200;
    /// For so long a name waits for the end of a claim by another process.
    uint64_t claim_wait_ms = 1'000;
    /// A claim ends by itself after so long.
    uint64_t claim_ms = 30'000;
  };
  enum class Kind : uint8_t { free, waits, refused };
  struct Verdict {
    Kind kind = Kind::free;
    std::string reason; ///< of a refusal: who has the name, and what to do
  };

  RoleNames() = default;
  explicit RoleNames(const Options& options) : options_(options) {}

  /// These were members under the coordinator before: until then their names
  /// are theirs.
  void expect(std::set<RoleId> roles, uint64_t until_ms);
  /// What holds for a process that asked at `asked_ms`; `heard_ms`: the newest
  /// sign of life of who holds the name.
  Verdict look(RoleId role, const RoleProcess& who, uint64_t asked_ms,
               uint64_t heard_ms, uint64_t now_ms) const;
  void claim(RoleId role, const RoleProcess& who, uint64_t now_ms);
  void joined(RoleId role, const RoleProcess& who);
  /// Who held the name is lost, or has left.
  void gone(RoleId role) { held_.erase(role); }
  void claim_ends(RoleId role) { claimed_.erase(role); }
  /// A supervisor says that this process has died. Returns whether it is the
  /// one that holds the name, which then is to be taken for lost.
  bool died(RoleId role, const RoleProcess& who);

private:
  struct Claim {
    RoleProcess who;
    uint64_t since_ms = 0;
  };

  Options options_;
  std::map<RoleId, RoleProcess> held_;
  std::map<RoleId, Claim> claimed_;
  std::set<RoleId> expected_;
  uint64_t expected_until_ms_ = 0;
};

} // namespace troupe
