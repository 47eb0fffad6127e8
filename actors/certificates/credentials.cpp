#include "actors/certificates/credentials.hpp"

#include "actors/certificates/certificate.hpp"
#include "actors/certificates/private_file.hpp"
#include "kernels/base/error.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <sstream>
#include <system_error>
#include <utility>
#include <vector>

namespace troupe {
namespace {

std::string reason() {
  return std::strerror(errno);
}

constexpr const char* bundled_certificate = "member.pem";
constexpr const char* bundled_key = "member.key";
constexpr const char* bundled_clock = "boot time";

int64_t seconds_since_boot() {
  timespec time{};
  ::clock_gettime(CLOCK_BOOTTIME, &time);
  return static_cast<int64_t>(time.tv_sec);
}

/// Tells whether it is a folder; a file has everything in one.
bool check_place(const std::string& path) {
  struct stat about {};
  if (::stat(path.c_str(), &about) != 0)
    refuse_certificate(
      path, reason()
              + "; name the folder that the coordinator made, or join with "
                "--token");
  const bool folder = S_ISDIR(about.st_mode);
  if (!folder && !S_ISREG(about.st_mode))
    refuse_certificate(path,
                       "is no folder; name the one that the coordinator made");
  check_private(path, about, folder ? 022 : 077);
  return folder;
}

bool is_there(const std::string& path) {
  struct stat about {};
  return ::lstat(path.c_str(), &about) == 0;
}

using Files = std::vector<std::pair<std::string, std::string>>;

/// What makes the set whole comes last.
void write_all(const std::string& folder, const Files& files) {
  for (const auto& [name, text] : files)
    write_private(folder + '/' + name, text);
}

void remove_all(const std::string& folder, const Files& files) {
  for (const auto& [name, text] : files)
    ::unlink((folder + '/' + name).c_str());
  ::rmdir(folder.c_str());
}

/// Returns false where somebody else made the folder meanwhile.
bool make_folder(const std::string& folder, const Files& files) {
  namespace fs = std::filesystem;
  std::error_code failure;
  const auto parent = fs::path{folder}.parent_path();
  if (!parent.empty())
    fs::create_directories(parent, failure);
  auto early = folder + ".new-XXXXXX";
  if (failure || ::mkdtemp(early.data()) == nullptr)
    refuse_certificate(folder, "cannot be made ("
                                 + (failure ? failure.message() : reason())
                                 + ")");
  try {
    write_all(early, files);
  } catch (...) {
    remove_all(early, files);
    throw;
  }
  if (::rename(early.c_str(), folder.c_str()) == 0)
    return true;
  const int code = errno;
  remove_all(early, files);
  errno = code;
  if (code != EEXIST && code != ENOTEMPTY)
    refuse_certificate(folder, "cannot be made (" + reason() + ")");
  return false;
}

std::string without_end(std::string folder) {
  while (folder.size() > 1 && folder.ends_with('/'))
    folder.pop_back();
  return folder;
}

/// "ca.pem, worker-1.pem": what a folder has instead.
std::string listed(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code failure;
  std::string out;
  int more = 8;
  for (fs::directory_iterator entry{folder, failure}, end;
       !failure && entry != end && more > 0; entry.increment(failure), --more)
    out += (out.empty() ? "" : ", ") + entry->path().filename().string();
  return out.empty() ? "nothing" : out;
}

void check_dates(const std::string& where, const std::string& whose, X509* x,
                 const CertificateSource& source) {
  const auto why = why_not_now(period_of(x), source.now());
  if (!why.empty())
    refuse_certificate(
      where, whose + ' ' + why
               + ": set the clock if it is wrong, or have the certificate "
                 "renewed (troupe certificates renew)");
}

/// Whether it is the member's, now.
void check_member(const std::string& where, const Credentials& out) {
  const auto authority = certificate_in(out.authority);
  if (!authority)
    refuse_certificate(where, "has no certificate of an authority");
  check_dates(where, "its authority", authority.get(), out.source);
  if (const auto signer = certificate_in(out.signer))
    check_dates(where, "the authority below it", signer.get(), out.source);
  const auto certificate = certificate_in(out.certificate);
  if (!certificate)
    refuse_certificate(where, "has no certificate");
  const auto name = name_in(certificate.get());
  if (!name)
    refuse_certificate(
      where, "its certificate names no member of a job (URI " + uri_of(out.name)
               + "); have it made anew, or signed with that name");
  if (*name != out.name)
    refuse_certificate(where, "the certificate is that of " + to_string(*name)
                                + ", and this is " + to_string(out.name)
                                + ": take its own, or join with --token");
  check_dates(where, "the certificate of " + to_string(*name),
              certificate.get(), out.source);
}

Credentials blank(const CertificateSource& source, const MemberName& name) {
  Credentials out;
  out.source = source;
  out.folder = source.path;
  out.name = name;
  return out;
}

/// With the authority's key in `out` the member gets a certificate of its own.
Credentials made_here(Credentials out) {
  auto made = make_member(out, out.name);
  made.authority_key = std::move(out.authority_key);
  made.signer = std::move(out.signer);
  check_member(out.folder, made);
  return made;
}

Credentials load_bundle(Credentials out) {
  std::istringstream text{read_private(out.folder, true)};
  std::string clock;
  std::string* to = nullptr;
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("# ")) {
      const auto name = line.substr(2);
      to = name == authority_file        ? &out.authority
           : name == authority_key_file  ? &out.authority_key
           : name == signer_file         ? &out.signer
           : name == bundled_certificate ? &out.certificate
           : name == bundled_key         ? &out.key
           : name == bundled_clock       ? &clock
                                         : nullptr;
    } else if (to) {
      *to += line + '\n';
    }
  }
  out.source.boot_s = std::strtoll(clock.c_str(), nullptr, 10);
  if (!out.authority_key.empty())
    return made_here(std::move(out));
  check_member(out.folder, out);
  return out;
}

Credentials load_folder(Credentials out) {
  const auto& folder = out.folder;
  const auto path = [&](const std::string& name) {
    return folder + '/' + name;
  };
  const auto own = file_stem(out.name);
  std::string stem;
  for (const auto& one : {own, std::string{"node"}})
    if (stem.empty() && is_there(path(one + ".pem")))
      stem = one;
  const bool signs = is_there(path(authority_key_file));
  if (!is_there(path(authority_file)))
    refuse_certificate(
      folder,
      (signs || !stem.empty() ? "is half a set: ca.pem is missing"
                              : "has no ca.pem")
        + std::string{"; copy the whole folder, or remove it where no other "
                      "host has one"});
  out.authority = read_private(path(authority_file), false);
  if (signs) {
    out.authority_key = read_private(path(authority_key_file), true);
    return made_here(std::move(out));
  }
  if (is_there(path(signer_key_file))) {
    out.signer = read_private(path(signer_file), false);
    out.authority_key = read_private(path(signer_key_file), true);
    return made_here(std::move(out));
  }
  if (stem.empty())
    refuse_certificate(
      folder, "has no certificate for " + to_string(out.name) + " (" + own
                + ".pem), nor the authority's key: it has " + listed(folder)
                + "; make one where ca.key is (troupe certificates new), or "
                  "join with --token");
  if (!is_there(path(stem + ".key")))
    refuse_certificate(
      folder, "is half a set: " + stem
                + ".key is missing; copy the whole folder, or remove it "
                  "where no other host has one");
  out.certificate = read_private(path(stem + ".pem"), false);
  out.key = read_private(path(stem + ".key"), true);
  check_member(path(stem + ".pem"), out);
  return out;
}

/// Errors: InputError, also where another authority is there.
void save_into(const std::string& folder, const std::string& expected,
               const Files& files) {
  if (!is_there(folder) && make_folder(folder, files))
    return;
  if (!check_place(folder))
    refuse_certificate(folder, "is a file; name a folder");
  const auto authority = folder + '/' + authority_file;
  if (is_there(authority) && read_private(authority, false) != expected)
    refuse_certificate(authority,
                       "is another authority's: name another folder");
  write_all(folder, files);
}

} // namespace

int64_t CertificateSource::now() const {
  const auto clock = boot_s == 0 ? static_cast<int64_t>(std::time(nullptr))
                                 : boot_s + seconds_since_boot();
  return clock + clock_offset_s;
}

CertificateSource held_clock(CertificateSource source) {
  source.boot_s = static_cast<int64_t>(std::time(nullptr))
                  - seconds_since_boot();
  return source;
}

Credentials make_authority(const CertificateSource& source) {
  auto out = blank(source, {});
  const auto key = make_key();
  out.authority = to_pem(make_authority(key.get(), source.now()).get());
  out.authority_key = to_pem(key.get());
  return out;
}

Credentials make_member(const Credentials& of, const MemberName& name) {
  if (name.kind == MemberName::Kind::authority)
    refuse_certificate(of.folder, "the key of " + to_string(name)
                                    + " is made where it signs: troupe "
                                      "certificates token "
                                    + to_string(name));
  const auto authority = certificate_in(signer_of(of));
  const auto authority_key = key_in(of.authority_key);
  if (!authority || !authority_key
      || X509_check_private_key(authority.get(), authority_key.get()) != 1)
    refuse_certificate(of.folder,
                       "ca.key is not the key of ca.pem; copy both from where "
                       "they were made");
  Credentials out = blank(of.source, name);
  out.folder = of.folder;
  out.authority = of.authority;
  const auto key = make_key();
  out.certificate =
    to_pem(issue(name, key.get(), authority.get(), authority_key.get(),
                 of.source.now(), of.source.valid_seconds)
             .get())
    + of.signer;
  out.key = to_pem(key.get());
  return out;
}

Credentials make_credentials(const CertificateSource& given,
                             const MemberName& name) {
  auto source = given;
  source.path = without_end(source.path);
  const auto& folder = source.path;
  const auto files = [&] {
    const auto made = make_authority(source);
    return Files{{authority_key_file, made.authority_key},
                 {authority_file, made.authority}};
  };
  if (!is_there(folder)) {
    make_folder(folder, files());
  } else if (check_place(folder)) {
    bool empty = true;
    for (const auto& one :
         {std::string{authority_file}, std::string{authority_key_file},
          file_stem(name) + ".pem", std::string{"node.pem"},
          std::string{"node.key"}})
      empty = empty && !is_there(folder + '/' + one);
    if (empty)
      write_all(folder, files());
  }
  return load_credentials(source, name);
}

Credentials load_credentials(const CertificateSource& given,
                             const MemberName& name) {
  auto out = blank(given, name);
  out.folder = out.source.path = without_end(given.path);
  return check_place(out.folder) ? load_folder(std::move(out))
                                 : load_bundle(std::move(out));
}

void save_credentials(const std::string& given, const Credentials& member) {
  const auto folder = without_end(given);
  const auto stem = file_stem(member.name);
  save_into(folder, member.authority,
            {{stem + ".key", member.key},
             {stem + ".pem", member.certificate},
             {authority_file, member.authority}});
}

void save_authority(const std::string& given, const Credentials& below) {
  save_into(without_end(given), below.authority,
            {{signer_key_file, below.key},
             {signer_file, below.certificate},
             {authority_file, below.authority}});
}

std::string to_bundle(const Credentials& member) {
  std::string out;
  for (const auto& [name, text] :
       Files{{authority_file, member.authority},
             {bundled_certificate, member.certificate},
             {bundled_key, member.key},
             {signer_file, member.signer},
             {authority_key_file, member.authority_key}})
    if (!text.empty())
      out += "# " + name + '\n' + text;
  if (member.source.boot_s != 0)
    out += std::string{"# "} + bundled_clock + '\n'
           + std::to_string(member.source.boot_s) + '\n';
  return out;
}

} // namespace troupe
