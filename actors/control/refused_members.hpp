#pragma once

#include "actors/certificates/tls_context.hpp"
#include "actors/wire/messages/greeting.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

/// Refuses a member in all connections of this process: its certificates that
/// were issued until then. No name of a member is ignored.
void refuse_member(TlsContext& tls, const RevokedMember& revoked);

/// The same of all that a coordinator tells (ControlLineOptions::revoked), then
/// calls `also`, if any, with each. Without `tls` there is nobody to refuse.
std::function<void(const std::vector<RevokedMember>&)>
refuse_members(std::shared_ptr<TlsContext> tls,
               std::function<void(const MemberName&, int64_t until)> also = {});

/// The same of what voters decide (OnRevoked).
std::function<void(const std::string& member, int64_t until)>
refuse_decided(std::shared_ptr<TlsContext> tls);

/// Whom a process refuses.
std::vector<RevokedMember> revoked_members(const TlsContext& tls);

} // namespace troupe
