#include "actors/certificates/join_token.hpp"

#include "actors/certificates/certificate.hpp"
#include "kernels/base/error.hpp"
#include "kernels/base/hex.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <array>
#include <charconv>
#include <span>
#include <vector>

namespace troupe {
namespace {

constexpr size_t nonce_bytes = 8;
constexpr size_t proof_digits = 32;

bool is_hex(const std::string& text, size_t digits) {
  return text.size() == digits
         && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

std::string claims(const JoinToken& token) {
  return to_string(token.name) + '.' + std::to_string(token.expires) + '.'
         + token.nonce + '.' + token.fingerprint;
}

/// Proves the claims with a secret that only who has the authority's key knows.
std::string prove(const JoinToken& token, const Credentials& authority) {
  const auto key = key_in(authority.authority_key);
  std::array<unsigned char, 256> secret{};
  size_t size = 0;
  BIGNUM* number = nullptr;
  if (key && EVP_PKEY_get_bn_param(key.get(), "priv", &number) == 1
      && BN_num_bytes(number) <= static_cast<int>(secret.size()))
    size = static_cast<size_t>(BN_bn2bin(number, secret.data()));
  BN_clear_free(number);
  if (size == 0)
    throw InputError("certificates: " + authority.folder
                     + ": has no key of an authority to make tokens with; do "
                       "it where ca.key is");
  const auto text = "troupe join " + claims(token);
  std::array<unsigned char, EVP_MAX_MD_SIZE> mac{};
  unsigned bytes = 0;
  HMAC(EVP_sha256(), secret.data(), static_cast<int>(size),
       reinterpret_cast<const unsigned char*>(text.data()), text.size(),
       mac.data(), &bytes);
  OPENSSL_cleanse(secret.data(), secret.size());
  return to_hex(std::span{mac}.first(bytes)).substr(0, proof_digits);
}

} // namespace

JoinToken make_token(const Credentials& authority, const MemberName& name,
                     int64_t valid_seconds) {
  const auto certificate = certificate_in(authority.authority);
  std::array<unsigned char, nonce_bytes> nonce{};
  if (!certificate || RAND_bytes(nonce.data(), nonce.size()) != 1)
    throw InputError("certificates: " + authority.folder
                     + ": no token can be made; check openssl's set-up");
  JoinToken token{name,
                  authority.source.now() + valid_seconds,
                  to_hex(nonce),
                  fingerprint(certificate.get()),
                  {}};
  token.proof = prove(token, authority);
  return token;
}

std::string to_string(const JoinToken& token) {
  return claims(token) + '.' + token.proof;
}

std::optional<JoinToken> parse_token(const std::string& text) {
  std::vector<std::string> parts{""};
  for (char c : text)
    if (c == '.')
      parts.emplace_back();
    else
      parts.back() += c;
  if (parts.size() != 5)
    return std::nullopt;
  const auto name = parse_member_name(parts[0]);
  JoinToken token;
  const auto* end = parts[1].data() + parts[1].size();
  const auto read = std::from_chars(parts[1].data(), end, token.expires);
  if (!name || read.ec != std::errc{} || read.ptr != end
      || !is_hex(parts[2], 2 * nonce_bytes) || !is_hex(parts[3], 64)
      || !is_hex(parts[4], proof_digits))
    return std::nullopt;
  token.name = *name;
  token.nonce = parts[2];
  token.fingerprint = parts[3];
  token.proof = parts[4];
  return to_string(token) == text ? std::optional{token} : std::nullopt;
}

bool is_genuine(const JoinToken& token, const Credentials& authority) {
  const auto proof = prove(token, authority);
  return proof.size() == token.proof.size()
         && CRYPTO_memcmp(proof.data(), token.proof.data(), proof.size()) == 0;
}

} // namespace troupe
