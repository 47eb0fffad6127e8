#pragma once

#include "actors/certificates/credentials.hpp"
#include "actors/certificates/revocations.hpp"

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace troupe {

/// What is asked of whoever signs for a job, and what is answered: one text
/// each way. A line a field, then PEM.
struct Petition {
  enum class Kind : uint8_t {
    join,   ///< with a token, and no certificate yet
    renew,  ///< with the certificate that is to be followed
    revoke, ///< an operator's: of `name`
  };
  Kind kind = Kind::join;
  MemberName name{};
  std::string token{};   ///< of join
  std::string request{}; ///< PEM: whose key is to be signed; not of revoke
};

/// Nothing longer is read, either way.
inline constexpr size_t longest_petition = 16 << 10;

std::string to_text(const Petition& petition);
/// Whether the text is whole.
bool is_whole(const std::string& text);
/// Errors: nullopt for anything else than to_text() writes.
std::optional<Petition> petition_of(const std::string& text);

/// Signs for the members of a job. A pure machine but for the list of used
/// tokens and revoked members, which are kept in the folder where the
/// authority's key is, if it is in one. Thread-safe.
class CertificateDesk {
public:
  /// `authority` has the authority's key.
  /// Errors: InputError naming a list that cannot be read.
  CertificateDesk(const Credentials& authority,
                  std::shared_ptr<Revocations> revocations);

  /// `peer`: whose certificate the other side has shown; nobody: it has none.
  /// The answer is "ok", with PEM of the authority and the member after it, or
  /// "refused: " and a line.
  std::string answer(const MemberName& peer, const std::string& text);
  /// Told of each member whose certificates hold no longer.
  std::function<void(const MemberName&)> revoked;

private:
  std::string judge(const MemberName& peer, const Petition& petition);
  std::string join(const Petition& petition);
  std::string sign(const Petition& petition) const;
  /// Returns false where the token was used before.
  bool use_up(const std::string& nonce, int64_t expires);

  std::mutex mutex_;
  Credentials authority_;
  std::string folder_; ///< empty: lists are kept in memory
  std::shared_ptr<Revocations> revocations_;
  std::map<std::string, int64_t> used_; ///< nonces, and when they expire
};

} // namespace troupe
