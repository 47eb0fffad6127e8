#pragma once

#include "actors/certificates/credentials.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace troupe {

/// Lets one member have a key of its own signed, once: says which authority to
/// trust, who it is for and until when, and proves that whoever has that
/// authority's key made it.
struct JoinToken {
  MemberName name;
  int64_t expires = 0;     ///< Unix time
  std::string nonce;       ///< 16 hexadecimal digits
  std::string fingerprint; ///< of the authority's certificate
  std::string proof;       ///< 32 hexadecimal digits: HMAC-SHA-256 (RFC 2104)
};

/// Errors: InputError where `authority` has no key to sign with.
JoinToken make_token(const Credentials& authority, const MemberName& name,
                     int64_t valid_seconds);
/// One word.
std::string to_string(const JoinToken& token);
/// Errors: nullopt for what to_string does not write.
std::optional<JoinToken> parse_token(const std::string& text);
/// Whether the authority made it, as it is. Time and use are not looked at.
bool is_genuine(const JoinToken& token, const Credentials& authority);

} // namespace troupe
