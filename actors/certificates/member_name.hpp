#pragma once

#include "strategies/role_id.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace troupe {

/// Who a process of a job is, as its certificate says: a role, or one of those
/// around them. A voter keeps the journal and nothing else; a supervisor starts
/// roles; an operator asks for changes (troupe ctl, troupe chaos).
struct MemberName {
  enum class Kind : uint8_t {
    nobody,
    coordinator,
    worker,
    shard,
    evaluator,
    voter,
    supervisor,
    operator_,
    stage,
    tensor,
    /// Below the job's own: a standby's, which signs for members and says
    /// nothing itself.
    authority,
    /// Of a fully sharded job: a process that is the worker and the shard of a
    /// number.
    sharded,
    reader,
  };
  Kind kind = Kind::nobody;
  uint32_t index = 0; ///< of worker, shard, evaluator, stage, tensor, reader,
                      ///< authority and sharded

  friend auto operator<=>(const MemberName&, const MemberName&) = default;
};

inline constexpr MemberName coordinator_name{MemberName::Kind::coordinator};
inline constexpr MemberName voter_name{MemberName::Kind::voter};
inline constexpr MemberName supervisor_name{MemberName::Kind::supervisor};
inline constexpr MemberName operator_name{MemberName::Kind::operator_};

MemberName name_of(RoleId role);
/// Whether a member's process is that other one too, or it itself: what the
/// other says, it may say.
bool speaks_for(const MemberName& member, const MemberName& other);
/// The same of a name as to_string() has it; nobody speaks for what is none.
bool speaks_for(const MemberName& member, const std::string& other);

/// "worker:1", "ps:0", "evaluator:0", "coordinator", "voter", "supervisor",
/// "operator", "authority:1", "sharded:2", "reader:0"; "nobody".
std::string to_string(const MemberName& name);
/// Reads what to_string writes, but "nobody".
/// Errors: nullopt.
std::optional<MemberName> parse_member_name(const std::string& text);
/// The name that its files have in a folder, without an ending: "worker-1".
std::string file_stem(const MemberName& name);
/// What a certificate has as subject alternative name: "troupe:worker:1".
std::string uri_of(const MemberName& name);
/// Where members have names as hosts.
inline constexpr const char* member_domain = "troupe.internal";
/// The same for those who know hosts only: "worker-1.troupe.internal".
std::string host_of(const MemberName& name);
std::optional<MemberName> name_of_uri(const std::string& uri);

} // namespace troupe
