#include "actors/credentials.hpp"

#include "actors/links/descriptor.hpp"
#include "kernels/error.hpp"

#include <fcntl.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

namespace troupe {
namespace {

constexpr long valid_seconds = 30L * 24 * 3600;

struct Free {
  void operator()(EVP_PKEY* x) const { EVP_PKEY_free(x); }
  void operator()(X509* x) const { X509_free(x); }
  void operator()(X509_EXTENSION* x) const { X509_EXTENSION_free(x); }
  void operator()(BIO* x) const { BIO_free(x); }
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

using Bio = std::unique_ptr<BIO, Free>;

template <class Write>
std::string pem_of(Write write) {
  const Bio memory{BIO_new(BIO_s_mem())};
  if (!memory || write(memory.get()) != 1)
    give_up("writing PEM");
  char* text = nullptr;
  const auto size = BIO_get_mem_data(memory.get(), &text);
  return {text, static_cast<size_t>(size)};
}

/// The authority's key is not kept: nobody can add members later.
Credentials fresh(const std::string& folder) {
  const auto authority_key = make_key();
  const auto authority = make_certificate(
    authority_key.get(), "troupe job authority", nullptr, authority_key.get());
  const auto key = make_key();
  const auto certificate = make_certificate(
    key.get(), "troupe member", authority.get(), authority_key.get());
  const auto text = [](X509* x) {
    return pem_of([x](BIO* out) { return PEM_write_bio_X509(out, x); });
  };
  return {folder, text(authority.get()), text(certificate.get()),
          pem_of([&](BIO* out) {
            return PEM_write_bio_PrivateKey(out, key.get(), nullptr, nullptr, 0,
                                            nullptr, nullptr);
          })};
}

// --- files -------------------------------------------------------------------

constexpr const char* authority_file = "ca.pem";
constexpr const char* certificate_file = "node.pem";
constexpr const char* key_file = "node.key";
/// Of a chain of certificates there is room for dozens.
constexpr off_t most_bytes = off_t{1} << 20;

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw InputError("certificates: " + path + ": " + why);
}

std::string reason() {
  return std::strerror(errno);
}

std::string octal(mode_t mode) {
  char text[8];
  std::snprintf(text, sizeof text, "%04o", mode & 07777);
  return text;
}

/// As ssh does: a key that others may read, or a place where others may put
/// one, is no secret and no identity.
void check_private(const std::string& path, const struct stat& about,
                   mode_t others) {
  if (about.st_uid != ::geteuid() && about.st_uid != 0)
    refuse(path, "belongs to another user (number "
                   + std::to_string(about.st_uid)
                   + "); copy it as your own, or let its owner start the role");
  if ((about.st_mode & others) != 0)
    refuse(path, std::string{"others may "}
                   + (others == 077 ? "read" : "write to") + " it (mode "
                   + octal(about.st_mode) + "): chmod "
                   + (others == 077 ? "600 " : "go-w ") + path
                   + ", or make new ones if somebody may have");
}

void check_folder(const std::string& folder) {
  struct stat about {};
  if (::stat(folder.c_str(), &about) != 0)
    refuse(folder, reason() + "; copy the folder that the coordinator made");
  if (!S_ISDIR(about.st_mode))
    refuse(folder, "is no folder; name the one that the coordinator made");
  check_private(folder, about, 022);
}

bool is_there(const std::string& path) {
  struct stat about {};
  return ::lstat(path.c_str(), &about) == 0;
}

std::string read_private(const std::string& folder, const char* name) {
  const auto path = folder + '/' + name;
  const Descriptor file{
    ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (!file && errno == ENOENT
      && (is_there(folder + '/' + authority_file)
          || is_there(folder + '/' + key_file)
          || is_there(folder + '/' + certificate_file)))
    refuse(folder, std::string{"is half a set: "} + name
                     + " is missing; copy the whole folder, or remove it where "
                       "no other host has one");
  if (!file)
    refuse(path, "cannot be read (" + reason()
                   + "); copy the folder that the coordinator made");
  struct stat about {};
  if (::fstat(file.get(), &about) != 0 || !S_ISREG(about.st_mode)
      || about.st_size > most_bytes)
    refuse(path, "is no file of certificates; copy the folder that the "
                 "coordinator made");
  check_private(path, about, name == key_file ? 077 : 022);
  std::string text(static_cast<size_t>(about.st_size), '\0');
  if (::read(file.get(), text.data(), text.size()) != about.st_size)
    refuse(path, "cannot be read; try again");
  return text;
}

/// A file that is whole, or not there.
void write_private(const std::string& path, const std::string& text) {
  const auto early = path + ".new-" + std::to_string(::getpid());
  ::unlink(early.c_str());
  Descriptor file{::open(
    early.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600)};
  const bool whole = file
                     && ::write(file.get(), text.data(), text.size())
                          == static_cast<ssize_t>(text.size())
                     && ::fsync(file.get()) == 0
                     && ::rename(early.c_str(), path.c_str()) == 0;
  if (whole)
    return;
  const int code = errno;
  ::unlink(early.c_str());
  errno = code;
  refuse(path, "cannot be written (" + reason() + ")");
}

/// The certificate last: without it there is no set.
void write_all(const std::string& folder, const Credentials& made) {
  write_private(folder + '/' + authority_file, made.authority);
  write_private(folder + '/' + key_file, made.key);
  write_private(folder + '/' + certificate_file, made.certificate);
}

void remove_all(const std::string& folder) {
  for (const char* name : {certificate_file, key_file, authority_file})
    ::unlink((folder + '/' + name).c_str());
  ::rmdir(folder.c_str());
}

/// Returns false where somebody else made the folder meanwhile.
bool make_folder(const std::string& folder, const Credentials& made) {
  namespace fs = std::filesystem;
  std::error_code failure;
  const auto parent = fs::path{folder}.parent_path();
  if (!parent.empty())
    fs::create_directories(parent, failure);
  auto early = folder + ".new-XXXXXX";
  if (failure || ::mkdtemp(early.data()) == nullptr)
    refuse(folder,
           "cannot be made (" + (failure ? failure.message() : reason()) + ")");
  try {
    write_all(early, made);
  } catch (...) {
    remove_all(early);
    throw;
  }
  if (::rename(early.c_str(), folder.c_str()) == 0)
    return true;
  const int code = errno;
  remove_all(early);
  errno = code;
  if (code != EEXIST && code != ENOTEMPTY)
    refuse(folder, "cannot be made (" + reason() + ")");
  return false;
}

std::string without_end(std::string folder) {
  while (folder.size() > 1 && folder.ends_with('/'))
    folder.pop_back();
  return folder;
}

} // namespace

Credentials make_credentials(const std::string& given) {
  const auto folder = without_end(given);
  if (!is_there(folder)) {
    auto made = fresh(folder);
    return make_folder(folder, made) ? made : load_credentials(folder);
  }
  check_folder(folder);
  for (const char* name : {certificate_file, key_file, authority_file})
    if (is_there(folder + '/' + name))
      return load_credentials(folder);
  auto made = fresh(folder);
  write_all(folder, made);
  return made;
}

Credentials load_credentials(const std::string& given) {
  const auto folder = without_end(given);
  check_folder(folder);
  Credentials out{folder, {}, {}, {}};
  out.certificate = read_private(folder, certificate_file);
  out.key = read_private(folder, key_file);
  out.authority = read_private(folder, authority_file);
  return out;
}

} // namespace troupe
