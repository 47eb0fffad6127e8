#pragma once

#include "actors/certificates/member_name.hpp"

#include <cstdint>
#include <string>

namespace troupe {

/// Where a process finds its certificates, and what it makes itself.
struct CertificateSource {
  CertificateSource() = default;
  CertificateSource(std::string where) : path(std::move(where)) {}
  CertificateSource(const char* where) : path(where) {}

  std::string path; ///< folder, or a file with all in one
  int64_t valid_seconds = 30L * 24 * 3600; ///< of those that are made here
  int64_t clock_offset_s = 0; ///< what a test adds to this host's clock
  /// When this host was started, by its clock as it was once: held_clock();
  /// 0: its clock as it is, which may be set meanwhile.
  int64_t boot_s = 0;

  /// Seconds of Unix time by which certificates are judged.
  int64_t now() const;
};

/// The same, but from here on its time goes on evenly (CLOCK_BOOTTIME), whoever
/// sets the host's clock: certificates that a run has made for its own
/// processes hold for those of its processes that begin later.
CertificateSource held_clock(CertificateSource source);

/// Certificate, key and authority of a member, as PEM text: read once,
/// whatever becomes of the files afterwards.
struct Credentials {
  std::string folder; ///< where from; empty: this process talks to itself only
  std::string authority;
  std::string certificate;
  std::string key;
  /// Whoever has it lets members in: the coordinator's, and of those who read
  /// the coordinator's folder.
  std::string authority_key{};
  /// Of whom it is the key: an authority below `authority`; empty: that one.
  std::string signer{};
  MemberName name{};
  CertificateSource source{};
};

/// Files of a folder.
inline constexpr const char* authority_file = "ca.pem";
inline constexpr const char* authority_key_file = "ca.key";
/// Of an authority below that one.
inline constexpr const char* signer_file = "authority.pem";
inline constexpr const char* signer_key_file = "authority.key";

/// The certificate of whoever signs with authority_key, PEM.
inline const std::string& signer_of(const Credentials& x) {
  return x.signer.empty() ? x.authority : x.signer;
}

/// An authority with nothing signed yet, in no file: certificate and its key.
Credentials make_authority(const CertificateSource& source);
/// A member's credentials with a fresh key, signed by the authority whose key
/// `of` has, without that key.
/// Errors: InputError where it has none.
Credentials make_member(const Credentials& of, const MemberName& name);

/// Makes a job's own authority in a folder, ca.pem and ca.key, where there is
/// nothing of a job, and returns what load_credentials() does. A folder that is
/// not there is made under another name, with mode 0700, and renamed when it is
/// whole. What is there already is kept, mode included.
/// Errors: InputError naming the file; as load_credentials().
Credentials make_credentials(const CertificateSource& source,
                             const MemberName& name);

/// Reads a member's credentials. In a folder with the authority's key, or that
/// of one below it (authority.pem, authority.key), they are made anew, in
/// memory. Else they are in NAME.pem and NAME.key (worker-1.pem),
/// or in node.pem and node.key where these are the member's; in a file, the
/// member's or made by the authority's key, all in one.
/// Owner and mode are those that ssh asks for: folder and files belong to this
/// user or root, nobody else may write to them, and keys nobody else may read.
/// Errors: InputError, one line, naming the file and what to do: one that is
/// missing or unreadable, that others could have put there, that names another
/// member, or that is valid at another time.
Credentials load_credentials(const CertificateSource& source,
                             const MemberName& name);

/// Writes a member's credentials into a folder, which is made where there is
/// none: ca.pem, NAME.pem and NAME.key.
/// Errors: InputError naming the file: also where another authority's is there.
void save_credentials(const std::string& folder, const Credentials& member);

/// Writes an authority below the job's into a folder, which is made where there
/// is none: ca.pem, authority.pem and authority.key. `below` has it as a
/// member's certificate and key. Errors: as save_credentials().
void save_authority(const std::string& folder, const Credentials& below);

/// All in one text, as a file has it, and by what clock it is judged.
std::string to_bundle(const Credentials& member);

} // namespace troupe
