#pragma once

#include "actors/certificates/member_name.hpp"

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <cstdint>
#include <ctime>
#include <memory>
#include <optional>
#include <string>

/// X.509 as this project uses it: elliptic-curve keys (P-256), a job's own
/// authority, certificates that name a member.
/// Source: RFC 5280; a member's name is a URI among the subject alternative
/// names (section 4.2.1.6). Requests are those of RFC 2986 (PKCS #10).
namespace troupe {

struct FreeCertificate {
  void operator()(EVP_PKEY* x) const { EVP_PKEY_free(x); }
  void operator()(X509* x) const { X509_free(x); }
  void operator()(X509_REQ* x) const { X509_REQ_free(x); }
};
using Key = std::unique_ptr<EVP_PKEY, FreeCertificate>;
using Certificate = std::unique_ptr<X509, FreeCertificate>;
using SigningRequest = std::unique_ptr<X509_REQ, FreeCertificate>;

/// When a certificate holds, in seconds of Unix time.
struct Period {
  int64_t from = 0;
  int64_t to = 0;
};

/// Errors: std::runtime_error where OpenSSL cannot.
Key make_key();
Certificate make_authority(EVP_PKEY* key, int64_t now);
/// Makes an authority below `authority`, for a key whose private half may be
/// elsewhere. It signs for members of the job and their names below
/// "troupe.internal" only, and makes no authority itself.
Certificate issue_authority(const MemberName& name, EVP_PKEY* key,
                            X509* authority, EVP_PKEY* authority_key,
                            int64_t now);
/// Makes a certificate for `key`, whose private half may be elsewhere. It holds
/// from an hour before `now` on, for clocks that differ, and not longer than
/// its authority's.
Certificate issue(const MemberName& name, EVP_PKEY* key, X509* authority,
                  EVP_PKEY* authority_key, int64_t now, int64_t valid_seconds);
/// Asks for a certificate for the key.
SigningRequest make_request(EVP_PKEY* key);
/// The key that is asked for, whose owner has signed with it. Errors: null.
Key key_asked_for(X509_REQ* request);

std::string to_pem(X509* certificate);
std::string to_pem(EVP_PKEY* key);
std::string to_pem(X509_REQ* request);
/// The first in a text. Errors: null.
Certificate certificate_in(const std::string& pem);
Key key_in(const std::string& pem);
SigningRequest request_in(const std::string& pem);

/// The one member that a certificate names. Errors: nullopt: none, or several.
std::optional<MemberName> name_in(X509* certificate);
Period period_of(X509* certificate);
/// SHA-256 of the certificate, 64 hexadecimal digits.
std::string fingerprint(X509* certificate);

/// "2026-11-24 13:05:00 UTC".
std::string date(int64_t unix_seconds);
/// "is valid from … to …, and this host's clock says …"; empty: it holds now.
std::string why_not_now(const Period& period, int64_t now);

} // namespace troupe
