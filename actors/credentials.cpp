#include "actors/actor_node.hpp"
#include "kernels/error.hpp"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

namespace troupe {
namespace {

constexpr long valid_seconds = 30L * 24 * 3600;

struct Free {
  void operator()(EVP_PKEY* x) const { EVP_PKEY_free(x); }
  void operator()(X509* x) const { X509_free(x); }
  void operator()(X509_EXTENSION* x) const { X509_EXTENSION_free(x); }
  void operator()(std::FILE* x) const { std::fclose(x); }
};
using Key = std::unique_ptr<EVP_PKEY, Free>;
using Certificate = std::unique_ptr<X509, Free>;

[[noreturn]] void give_up(const std::string& what) {
  throw InputError("certificates: " + what
                   + " failed; check the folder and openssl's set-up");
}

Key make_key() {
  Key key{EVP_EC_gen("P-256")};
  if (!key)
    give_up("making a key");
  return key;
}

void extend(X509* certificate, X509* issuer, int kind, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  std::unique_ptr<X509_EXTENSION, Free> extension{
    X509V3_EXT_conf_nid(nullptr, &context, kind, value)};
  if (!extension || X509_add_ext(certificate, extension.get(), -1) != 1)
    give_up("extending a certificate");
}

/// `issuer` null: signed by itself, an authority.
Certificate make_certificate(EVP_PKEY* key, const char* name, X509* issuer,
                             EVP_PKEY* issuer_key) {
  Certificate made{X509_new()};
  uint64_t serial = 0;
  if (!made || RAND_bytes(reinterpret_cast<unsigned char*>(&serial), 8) != 1)
    give_up("making a certificate");
  X509_set_version(made.get(), X509_VERSION_3);
  ASN1_INTEGER_set_uint64(X509_get_serialNumber(made.get()), serial >> 1);
  X509_gmtime_adj(X509_getm_notBefore(made.get()), -3600);
  X509_gmtime_adj(X509_getm_notAfter(made.get()), valid_seconds);
  X509_set_pubkey(made.get(), key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(made.get()), "CN",
                             MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name), -1,
                             -1, 0);
  auto* signer = issuer == nullptr ? made.get() : issuer;
  X509_set_issuer_name(made.get(), X509_get_subject_name(signer));
  if (issuer == nullptr) {
    extend(made.get(), signer, NID_basic_constraints, "critical,CA:TRUE");
    extend(made.get(), signer, NID_key_usage, "critical,keyCertSign,cRLSign");
  } else {
    extend(made.get(), signer, NID_basic_constraints, "critical,CA:FALSE");
    extend(made.get(), signer, NID_ext_key_usage, "serverAuth,clientAuth");
  }
  if (X509_sign(made.get(), issuer_key, EVP_sha256()) == 0)
    give_up("signing a certificate");
  return made;
}

template <class Write>
void write_private(const std::string& path, Write write) {
  const auto old = umask(077);
  std::unique_ptr<std::FILE, Free> file{std::fopen(path.c_str(), "wx")};
  umask(old);
  if (!file)
    throw InputError("certificates: cannot write " + path + ": "
                     + std::strerror(errno));
  if (write(file.get()) != 1 || std::fflush(file.get()) != 0)
    give_up("writing " + path);
}

} // namespace

Credentials make_credentials(const std::string& folder) {
  Credentials made{folder};
  std::error_code failure;
  if (std::filesystem::exists(made.certificate(), failure))
    return load_credentials(folder);
  std::filesystem::create_directories(folder, failure);
  if (failure)
    throw InputError("certificates: cannot create " + folder + ": "
                     + failure.message());
  std::filesystem::permissions(folder, std::filesystem::perms::owner_all,
                               failure);
  auto authority_key = make_key();
  auto authority = make_certificate(authority_key.get(), "troupe job authority",
                                    nullptr, authority_key.get());
  auto key = make_key();
  auto certificate = make_certificate(key.get(), "troupe member",
                                      authority.get(), authority_key.get());
  // The authority's key is not kept: nobody can add members later.
  write_private(made.authority(), [&](std::FILE* file) {
    return PEM_write_X509(file, authority.get());
  });
  write_private(made.key(), [&](std::FILE* file) {
    return PEM_write_PrivateKey(file, key.get(), nullptr, nullptr, 0, nullptr,
                                nullptr);
  });
  write_private(made.certificate(), [&](std::FILE* file) {
    return PEM_write_X509(file, certificate.get());
  });
  return made;
}

Credentials load_credentials(const std::string& folder) {
  Credentials given{folder};
  for (const auto& path :
       {given.authority(), given.certificate(), given.key()}) {
    std::unique_ptr<std::FILE, Free> file{std::fopen(path.c_str(), "r")};
    if (!file)
      throw InputError("certificates: cannot read " + path + ": "
                       + std::strerror(errno)
                       + "; copy the folder that the coordinator made");
  }
  return given;
}

} // namespace troupe
