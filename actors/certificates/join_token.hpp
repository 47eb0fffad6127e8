#pragma once

#include "actors/certificates/credentials.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace troupe {

/// Lets one member have a key of its own signed, once: says which authority to
/// trust, who it is for and until when, and proves that whoever has that
/// authority's key, or that of one below it, made it.
struct JoinToken {
  MemberName name;
  int64_t expires = 0;     ///< Unix time
  std::string nonce;       ///< 16 hexadecimal digits
  std::string fingerprint; ///< of the authority's certificate
  std::string proof;       ///< signature, DER in hexadecimal: ECDSA, SHA-256
};

/// Errors: InputError where `authority` has no key to sign with.
JoinToken make_token(const Credentials& authority, const MemberName& name,
                     int64_t valid_seconds);
/// One word.
std::string to_string(const JoinToken& token);
/// Errors: nullopt for what to_string does not write.
std::optional<JoinToken> parse_token(const std::string& text);
/// Whether the authority, or the one below it that `authority` signs as, made
/// it, as it is: no secret is needed to tell. Time and use are not looked at.
bool is_genuine(const JoinToken& token, const Credentials& authority);

} // namespace troupe
