#pragma once

#include "actors/wire/messages/fields.hpp"

#include <string>
#include <vector>

/// How a role joins a job, and joins again.
namespace troupe {

/// Counted up with every change of a wire type.
inline constexpr uint32_t message_revision = 39;

/// A role's process asks what it is to do; `again`: it knows, and asks only who
/// is the coordinator now, and whether it is a member still.
struct Hello {
  RoleId role;
  uint32_t revision = message_revision;
  bool again = false;
  uint64_t incarnation = 0; ///< that it has; 0: none, or not to be judged
  std::string host{};       ///< of the process; empty: in the coordinator's
  uint32_t process = 0;
};
/// Certificates that were issued to the member until then hold no longer.
struct RevokedMember {
  std::string member;
  int64_t until = 0; ///< Unix time
};
/// Whom a role has to reach over a link.
struct LinkedRole {
  RoleId role;
  std::string links; ///< where its links are met (Join::links)
};
/// The answer: the job, and as whom the role takes part.
struct JobInfo {
  uint64_t job = 0;
  uint64_t incarnation = 0; ///< 0: it keeps the one that it has
  std::string options;      ///< JobOptions as JSON; empty: as before
  uint64_t term = 0;        ///< of this coordinator
  /// Why the incarnation that asks again is no member; empty: it may be one.
  std::string left_out{};
  bool over = false;       ///< the run is
  bool supervised = false; ///< somebody starts the role again when it ends
  uint64_t loss_ms = 0;    ///< silence that counts as loss
  /// Links that it has to reach before it joins again.
  std::vector<LinkedRole> probe{};
  uint64_t wait_ms = 0; ///< before it may join again
  /// All of the job: told with each answer, so that whoever asks four times a
  /// second knows.
  std::vector<RevokedMember> revoked{};
  /// Between two signs of life of this role; 0: as usual.
  uint64_t sign_ms = 0;
  /// Who reads samples for the worker that asks again.
  std::vector<LinkedRole> readers{};
  /// Who else does, in the order in which they are to be tried.
  std::vector<LinkedRole> other_readers{};
  /// Why the incarnation that asks again cannot take part; empty: it may.
  std::string refused{};
};
/// The role is ready; its sender is the role's actor.
struct Join {
  uint64_t job = 0;
  RoleId role;
  uint64_t incarnation = 0;
  std::string endpoint;      ///< HOST:PORT, or empty: in this process
  std::string numeric_class; ///< of its device (PROTOCOL 21); worker
  std::string probe;         ///< hash of the fixed probe; worker (PROTOCOL 21)
  std::string links;  ///< where its links are met; empty: it accepts none
  std::string host{}; ///< as in Hello
  uint32_t process = 0;
  /// data_contents() of the samples that it reads; empty: it reads none.
  std::string data{};
};
/// The role's process takes part as another incarnation from here on, with all
/// that it holds; to the role's actor, from its own process.
struct Readmit {
  uint64_t job = 0;
  uint64_t incarnation = 0;
};
TROUPE_INSPECT(Hello, TROUPE_FIELD(role), TROUPE_FIELD(revision),
               TROUPE_FIELD(again), TROUPE_FIELD(incarnation),
               TROUPE_FIELD(host), TROUPE_FIELD(process))
TROUPE_INSPECT(RevokedMember, TROUPE_FIELD(member), TROUPE_FIELD(until))
TROUPE_INSPECT(LinkedRole, TROUPE_FIELD(role), TROUPE_FIELD(links))
TROUPE_INSPECT(JobInfo, TROUPE_FIELD(job), TROUPE_FIELD(incarnation),
               TROUPE_FIELD(options), TROUPE_FIELD(term),
               TROUPE_FIELD(left_out), TROUPE_FIELD(over),
               TROUPE_FIELD(supervised), TROUPE_FIELD(loss_ms),
               TROUPE_FIELD(probe), TROUPE_FIELD(wait_ms),
               TROUPE_FIELD(revoked), TROUPE_FIELD(sign_ms),
               TROUPE_FIELD(readers), TROUPE_FIELD(other_readers),
               TROUPE_FIELD(refused))
TROUPE_INSPECT(Join, TROUPE_FIELD(job), TROUPE_FIELD(role),
               TROUPE_FIELD(incarnation), TROUPE_FIELD(endpoint),
               TROUPE_FIELD(numeric_class), TROUPE_FIELD(probe),
               TROUPE_FIELD(links), TROUPE_FIELD(host), TROUPE_FIELD(process),
               TROUPE_FIELD(data))
TROUPE_INSPECT(Readmit, TROUPE_FIELD(job), TROUPE_FIELD(incarnation))

} // namespace troupe
