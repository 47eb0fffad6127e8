#pragma once

#include "actors/certificates/credentials.hpp"

#include <map>
#include <mutex>
#include <string>

namespace troupe {

/// Signs for members that make their keys elsewhere, over a way by which it is
/// known who asks (a launcher's connection to a host). Thread-safe.
class MemberSigner {
public:
  /// `authority` has the authority's key.
  /// Errors: InputError where it has none.
  explicit MemberSigner(Credentials authority);

  /// What the member needs besides its key, as to_bundle() writes it, from a
  /// request in PEM.
  /// Errors: InputError for what is no request.
  std::string sign(const MemberName& name, const std::string& request);
  /// Those that the member was given until then hold no longer: the next that
  /// it is given are new ones.
  void revoked(const MemberName& name, int64_t until);

private:
  std::mutex mutex_;
  const Credentials authority_;
  std::map<MemberName, int64_t> revoked_; ///< Unix time
};

/// The other side: a key that stays in this process, and what is asked for it.
class MemberRequest {
public:
  /// `source`: by what clock the member is to judge certificates.
  explicit MemberRequest(CertificateSource source = {});
  const std::string& request() const { return request_; }
  /// All that the member needs, as to_bundle() writes it.
  std::string complete(const std::string& signed_for) const;

private:
  CertificateSource source_;
  std::string key_;
  std::string request_;
};

} // namespace troupe
