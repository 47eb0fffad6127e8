#include "actors/control/refused_members.hpp"

#include "actors/certificates/revocations.hpp"
#include "kernels/base/error.hpp"

#include <iostream>
#include <utility>

namespace troupe {

void refuse_member(TlsContext& tls, const RevokedMember& revoked) {
  const auto name = parse_member_name(revoked.member);
  if (!name)
    return;
  try {
    tls.revoke(*name, revoked.until);
  } catch (const InputError& failure) { // it is refused all the same
    std::cerr << to_string(tls.credentials().name) + ": " + failure.what()
                   + '\n';
  }
}

std::vector<RevokedMember> revoked_members(const TlsContext& tls) {
  std::vector<RevokedMember> out;
  for (const auto& [name, until] : tls.revocations()->all())
    out.push_back({to_string(name), until});
  return out;
}

std::function<void(const std::vector<RevokedMember>&)>
refuse_members(std::shared_ptr<TlsContext> tls,
               std::function<void(const MemberName&, int64_t)> also) {
  if (!tls)
    return {};
  return [tls = std::move(tls),
          also = std::move(also)](const std::vector<RevokedMember>& all) {
    for (const auto& revoked : all) {
      refuse_member(*tls, revoked);
      if (const auto name = parse_member_name(revoked.member); name && also)
        also(*name, revoked.until);
    }
  };
}

std::function<void(const std::string&, int64_t)>
refuse_decided(std::shared_ptr<TlsContext> tls) {
  if (!tls)
    return {};
  return [tls = std::move(tls)](const std::string& member, int64_t until) {
    refuse_member(*tls, {member, until});
  };
}

} // namespace troupe
