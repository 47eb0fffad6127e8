#pragma once

#include "actors/certificates/certificate.hpp"
#include "actors/certificates/certificate_desk.hpp"
#include "actors/certificates/join_token.hpp"
#include "actors/certificates/tls_context.hpp"

#include <chrono>
#include <string>

namespace troupe {

/// Asks the coordinator at HOST:PORT, or at the first of several with commas
/// that answers, as the member whose certificate `tls` shows. Blocks. Returns
/// the member's new credentials; of a revocation those it had.
/// Errors: InputError with one line.
Credentials petition(const TlsContext& tls, const std::string& coordinators,
                     const Petition& what, std::chrono::milliseconds deadline);

/// Renews the member's credentials with a fresh key: by its authority's key
/// where it has that, else at the coordinator. Blocks.
/// Errors: as petition().
Credentials renewed(const TlsContext& tls, const std::string& coordinators,
                    std::chrono::milliseconds deadline);

/// Joins with a token and a fresh key, which stays here: the coordinator is
/// known by the fingerprint in the token. Blocks.
/// Errors: as petition().
Credentials join_with(const JoinToken& token, const std::string& coordinators,
                      const CertificateSource& source,
                      std::chrono::milliseconds deadline);

} // namespace troupe
