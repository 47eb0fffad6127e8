#include "actors/certificates/certificate.hpp"

#include "kernels/base/hex.hpp"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <climits>
#include <span>
#include <stdexcept>

namespace troupe {
namespace {

constexpr int64_t backdated_seconds = 3600;
constexpr int64_t authority_seconds = int64_t{10} * 365 * 24 * 3600;

struct Free {
  void operator()(X509_EXTENSION* x) const { X509_EXTENSION_free(x); }
  void operator()(BIO* x) const { BIO_free(x); }
  void operator()(GENERAL_NAMES* x) const { GENERAL_NAMES_free(x); }
  void operator()(ASN1_TIME* x) const { ASN1_TIME_free(x); }
};
using Bio = std::unique_ptr<BIO, Free>;

void check(bool holds, const char* what) {
  if (holds)
    return;
  ERR_clear_error();
  throw std::runtime_error(std::string{"certificates: "} + what
                           + " failed; check openssl's set-up");
}

void extend(X509* certificate, X509* issuer, int kind,
            const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const std::unique_ptr<X509_EXTENSION, Free> extension{
    X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str())};
  check(extension && X509_add_ext(certificate, extension.get(), -1) == 1,
        "extending a certificate");
}

/// Which key a certificate is of, and by which it is signed (RFC 5280, 4.2.1.1
/// and 4.2.1.2): whoever verifies strictly, as Python 3.13 does, asks for both.
void name_keys(X509* certificate, X509* issuer) {
  extend(certificate, issuer, NID_subject_key_identifier, "hash");
  if (certificate != issuer && X509_get0_subject_key_id(issuer) != nullptr)
    extend(certificate, issuer, NID_authority_key_identifier, "keyid:always");
}

Certificate begin(const std::string& name, EVP_PKEY* key,
                  const Period& period) {
  Certificate made{X509_new()};
  uint64_t serial = 0;
  check(made && RAND_bytes(reinterpret_cast<unsigned char*>(&serial), 8) == 1,
        "making a certificate");
  X509_set_version(made.get(), X509_VERSION_3);
  ASN1_INTEGER_set_uint64(X509_get_serialNumber(made.get()), serial >> 1);
  check(ASN1_TIME_set(X509_getm_notBefore(made.get()), period.from) != nullptr
          && ASN1_TIME_set(X509_getm_notAfter(made.get()), period.to)
               != nullptr,
        "dating a certificate");
  X509_set_pubkey(made.get(), key);
  X509_NAME_add_entry_by_txt(
    X509_get_subject_name(made.get()), "CN", MBSTRING_ASC,
    reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  return made;
}

template <class Write>
std::string pem_of(Write write) {
  const Bio memory{BIO_new(BIO_s_mem())};
  check(memory && write(memory.get()) == 1, "writing PEM");
  char* text = nullptr;
  const auto size = BIO_get_mem_data(memory.get(), &text);
  return {text, static_cast<size_t>(size)};
}

template <class Read>
auto read_pem(const std::string& pem, Read read) {
  const Bio text{BIO_new_mem_buf(
    pem.data(), pem.size() > INT_MAX ? 0 : static_cast<int>(pem.size()))};
  auto* made = text ? read(text.get()) : nullptr;
  ERR_clear_error();
  return made;
}

int64_t unix_seconds(const ASN1_TIME* time) {
  std::tm parts{};
  return time != nullptr && ASN1_TIME_to_tm(time, &parts) == 1
           ? static_cast<int64_t>(timegm(&parts))
           : 0;
}

} // namespace

Key make_key() {
  Key key{EVP_EC_gen("P-256")};
  check(key != nullptr, "making a key");
  return key;
}

Certificate make_authority(EVP_PKEY* key, int64_t now) {
  auto made = begin("troupe job authority", key,
                    {now - backdated_seconds, now + authority_seconds});
  X509_set_issuer_name(made.get(), X509_get_subject_name(made.get()));
  extend(made.get(), made.get(), NID_basic_constraints, "critical,CA:TRUE");
  extend(made.get(), made.get(), NID_key_usage, "critical,keyCertSign,cRLSign");
  name_keys(made.get(), made.get());
  check(X509_sign(made.get(), key, EVP_sha256()) != 0, "signing");
  return made;
}

Certificate issue_authority(const MemberName& name, EVP_PKEY* key,
                            X509* authority, EVP_PKEY* authority_key,
                            int64_t now) {
  auto made = begin("troupe " + to_string(name), key,
                    {now - backdated_seconds, period_of(authority).to});
  X509_set_issuer_name(made.get(), X509_get_subject_name(authority));
  extend(made.get(), authority, NID_basic_constraints,
         "critical,CA:TRUE,pathlen:0");
  extend(made.get(), authority, NID_key_usage, "critical,keyCertSign,cRLSign");
  extend(made.get(), authority, NID_name_constraints,
         std::string{"critical,permitted;DNS:"} + member_domain);
  extend(made.get(), authority, NID_subject_alt_name, "URI:" + uri_of(name));
  name_keys(made.get(), authority);
  check(X509_sign(made.get(), authority_key, EVP_sha256()) != 0, "signing");
  return made;
}

Certificate issue(const MemberName& name, EVP_PKEY* key, X509* authority,
                  EVP_PKEY* authority_key, int64_t now, int64_t valid_seconds) {
  auto made = begin("troupe " + to_string(name), key,
                    {now - backdated_seconds,
                     std::min(now + valid_seconds, period_of(authority).to)});
  X509_set_issuer_name(made.get(), X509_get_subject_name(authority));
  extend(made.get(), authority, NID_basic_constraints, "critical,CA:FALSE");
  extend(made.get(), authority, NID_ext_key_usage, "serverAuth,clientAuth");
  extend(made.get(), authority, NID_subject_alt_name,
         "URI:" + uri_of(name) + ",DNS:" + host_of(name));
  name_keys(made.get(), authority);
  check(X509_sign(made.get(), authority_key, EVP_sha256()) != 0, "signing");
  return made;
}

SigningRequest make_request(EVP_PKEY* key) {
  SigningRequest made{X509_REQ_new()};
  check(made && X509_REQ_set_version(made.get(), 0) == 1
          && X509_REQ_set_pubkey(made.get(), key) == 1
          && X509_REQ_sign(made.get(), key, EVP_sha256()) != 0,
        "asking for a certificate");
  return made;
}

Key key_asked_for(X509_REQ* request) {
  Key key{request == nullptr ? nullptr : X509_REQ_get_pubkey(request)};
  const bool own = key && X509_REQ_verify(request, key.get()) == 1
                   && EVP_PKEY_is_a(key.get(), "EC") == 1;
  ERR_clear_error();
  return own ? std::move(key) : nullptr;
}

std::string to_pem(X509* certificate) {
  return pem_of([&](BIO* to) { return PEM_write_bio_X509(to, certificate); });
}

std::string to_pem(EVP_PKEY* key) {
  return pem_of([&](BIO* to) {
    return PEM_write_bio_PrivateKey(to, key, nullptr, nullptr, 0, nullptr,
                                    nullptr);
  });
}

std::string to_pem(X509_REQ* request) {
  return pem_of([&](BIO* to) { return PEM_write_bio_X509_REQ(to, request); });
}

Certificate certificate_in(const std::string& pem) {
  return Certificate{read_pem(pem, [](BIO* from) {
    return PEM_read_bio_X509(from, nullptr, nullptr, nullptr);
  })};
}

Key key_in(const std::string& pem) {
  return Key{read_pem(pem, [](BIO* from) {
    return PEM_read_bio_PrivateKey(from, nullptr, nullptr, nullptr);
  })};
}

SigningRequest request_in(const std::string& pem) {
  return SigningRequest{read_pem(pem, [](BIO* from) {
    return PEM_read_bio_X509_REQ(from, nullptr, nullptr, nullptr);
  })};
}

std::optional<MemberName> name_in(X509* certificate) {
  if (certificate == nullptr)
    return std::nullopt;
  const std::unique_ptr<GENERAL_NAMES, Free> names{static_cast<GENERAL_NAMES*>(
    X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr))};
  std::optional<MemberName> found;
  for (int i = 0; names && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const auto* one = sk_GENERAL_NAME_value(names.get(), i);
    if (one->type != GEN_URI)
      continue;
    const auto* text = one->d.uniformResourceIdentifier;
    const auto name =
      name_of_uri({reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
                   static_cast<size_t>(ASN1_STRING_length(text))});
    if (name && found)
      return std::nullopt;
    if (name)
      found = name;
  }
  return found;
}

Period period_of(X509* certificate) {
  return {unix_seconds(X509_get0_notBefore(certificate)),
          unix_seconds(X509_get0_notAfter(certificate))};
}

std::string fingerprint(X509* certificate) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
  unsigned size = 0;
  check(X509_digest(certificate, EVP_sha256(), bytes.data(), &size) == 1,
        "hashing a certificate");
  return to_hex(std::span{bytes}.first(size));
}

std::string date(int64_t unix_seconds) {
  const auto seconds = static_cast<std::time_t>(unix_seconds);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 64> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &parts);
  return text.data();
}

std::string why_not_now(const Period& period, int64_t now) {
  if (now >= period.from && now <= period.to)
    return {};
  return "is valid from " + date(period.from) + " to " + date(period.to)
         + ", and this host's clock says " + date(now);
}

} // namespace troupe
