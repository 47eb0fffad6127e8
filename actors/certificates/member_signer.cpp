#include "actors/certificates/member_signer.hpp"

#include "actors/certificates/certificate.hpp"
#include "kernels/base/error.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

MemberSigner::MemberSigner(Credentials authority)
  : authority_(std::move(authority)) {
  if (authority_.authority_key.empty())
    throw InputError("certificates: " + authority_.folder
                     + " has no ca.key: a launcher signs for the roles that it "
                       "starts on other hosts, so name the folder that has it, "
                       "or none, and the job makes its own");
}

std::string MemberSigner::sign(const MemberName& name,
                               const std::string& request) {
  const auto asked = request_in(request);
  const auto key = key_asked_for(asked.get());
  if (!key)
    throw InputError("certificates: what " + to_string(name)
                     + " wants signed is no request with a key of its own");
  const auto authority = certificate_in(signer_of(authority_));
  const auto authority_key = key_in(authority_.authority_key);
  auto now = authority_.source.now();
  {
    // It must be told apart from those that were revoked in this second.
    const std::lock_guard guard{mutex_};
    if (const auto found = revoked_.find(name); found != revoked_.end())
      now = std::max(now, found->second + 1);
  }
  Credentials member;
  member.authority = authority_.authority;
  member.certificate =
    to_pem(issue(name, key.get(), authority.get(), authority_key.get(), now,
                 authority_.source.valid_seconds)
             .get())
    + authority_.signer;
  return to_bundle(member);
}

void MemberSigner::revoked(const MemberName& name, int64_t until) {
  const std::lock_guard guard{mutex_};
  auto& known = revoked_[name];
  known = std::max(known, until);
}

MemberRequest::MemberRequest(CertificateSource source)
  : source_(std::move(source)) {
  const auto key = make_key();
  key_ = to_pem(key.get());
  request_ = to_pem(make_request(key.get()).get());
}

std::string MemberRequest::complete(const std::string& signed_for) const {
  Credentials key;
  key.key = key_;
  key.source = source_;
  return signed_for + to_bundle(key);
}

} // namespace troupe
