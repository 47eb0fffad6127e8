#include "actors/certificates/join_token.hpp"

#include "actors/certificates/certificate.hpp"
#include "kernels/base/error.hpp"
#include "kernels/base/hex.hpp"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#include <array>
#include <charconv>
#include <memory>
#include <span>
#include <vector>

namespace troupe {
namespace {

constexpr size_t nonce_bytes = 8;
constexpr size_t max_proof_bytes = 80; // of P-256: 72 at most

bool is_hex(const std::string& text, size_t digits) {
  return text.size() == digits
         && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

std::string claims(const JoinToken& token) {
  return to_string(token.name) + '.' + std::to_string(token.expires) + '.'
         + token.nonce + '.' + token.fingerprint;
}

std::string signed_text(const JoinToken& token) {
  return "troupe join " + claims(token);
}

struct FreeDigest {
  void operator()(EVP_MD_CTX* x) const { EVP_MD_CTX_free(x); }
};
using Digest = std::unique_ptr<EVP_MD_CTX, FreeDigest>;

const unsigned char* bytes_of(const std::string& text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

std::string prove(const JoinToken& token, const Credentials& authority) {
  const auto key = key_in(authority.authority_key);
  const Digest digest{EVP_MD_CTX_new()};
  const auto text = signed_text(token);
  std::array<unsigned char, max_proof_bytes> proof{};
  size_t size = proof.size();
  if (!key || !digest
      || EVP_DigestSignInit(digest.get(), nullptr, EVP_sha256(), nullptr,
                            key.get())
           != 1
      || EVP_DigestSign(digest.get(), proof.data(), &size, bytes_of(text),
                        text.size())
           != 1) {
    ERR_clear_error();
    throw InputError("certificates: " + authority.folder
                     + ": has no key of an authority to make tokens with; do "
                       "it where ca.key is");
  }
  return to_hex(std::span{proof}.first(size));
}

bool is_proven(const JoinToken& token, const std::string& by) {
  const auto certificate = certificate_in(by);
  const Digest digest{EVP_MD_CTX_new()};
  const auto text = signed_text(token);
  std::vector<unsigned char> proof(token.proof.size() / 2);
  for (size_t i = 0; i < proof.size(); ++i)
    std::from_chars(token.proof.data() + 2 * i, token.proof.data() + 2 * i + 2,
                    proof[i], 16);
  const bool fine =
    certificate && digest
    && EVP_DigestVerifyInit(digest.get(), nullptr, EVP_sha256(), nullptr,
                            X509_get0_pubkey(certificate.get()))
         == 1
    && EVP_DigestVerify(digest.get(), proof.data(), proof.size(),
                        bytes_of(text), text.size())
         == 1;
  ERR_clear_error();
  return fine;
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
      || parts[4].size() % 2 != 0 || parts[4].size() > 2 * max_proof_bytes
      || !is_hex(parts[4], parts[4].size()))
    return std::nullopt;
  token.name = *name;
  token.nonce = parts[2];
  token.fingerprint = parts[3];
  token.proof = parts[4];
  return to_string(token) == text ? std::optional{token} : std::nullopt;
}

bool is_genuine(const JoinToken& token, const Credentials& authority) {
  return is_proven(token, authority.authority)
         || is_proven(token, authority.signer);
}

} // namespace troupe
