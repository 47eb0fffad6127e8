#pragma once

#include "actors/certificates/credentials.hpp"
#include "actors/certificates/tls_context.hpp"

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

/// Whether an answer grants what was asked for.
bool is_granted(const std::string& answer);

/// What the next coordinator has to know, too.
struct CertificateRecord {
  enum class Kind : uint8_t {
    revoked,    ///< all that was issued to the member until then
    token_used, ///< which would expire then
  };
  Kind kind = Kind::revoked;
  MemberName name{};
  std::string nonce{}; ///< of the token
  int64_t until = 0;   ///< Unix time
};

/// Signs for the members of a job, as its authority or one below it. Who leads
/// revokes and takes tokens as well, once that is kept; who does not renews
/// what is valid. Lists are kept in the folder where the authority's key is,
/// too, if it is in one. Thread-safe.
class CertificateDesk : public std::enable_shared_from_this<CertificateDesk> {
public:
  /// Calls kept(), on any thread, once the record outlives this process; never
  /// where another one leads by now.
  using Keep = std::function<void(const CertificateRecord& record,
                                  std::function<void()> kept)>;
  /// Takes "ok", with PEM of the authority and the member after it, or
  /// "refused: " and a line; on any thread. Whoever waits has a deadline.
  using Answered = std::function<void(const std::string& answer)>;

  /// `tls` shows a coordinator with an authority's key.
  /// Errors: InputError naming a list that cannot be read.
  explicit CertificateDesk(std::shared_ptr<TlsContext> tls);

  /// This process leads from here on; `used`: tokens before, and when they
  /// would expire.
  void lead(Keep keep, const std::map<std::string, int64_t>& used = {});

  /// `peer`: whose certificate the other side has shown; nobody: it has none.
  void answer(const MemberName& peer, const std::string& text,
              const Answered& done);

private:
  /// The answer; empty: it follows once something is kept.
  std::string judge(const MemberName& peer, const Petition& petition,
                    const Answered& done);
  std::string revoke(const MemberName& peer, const Petition& petition,
                     const Answered& done);
  std::string join(const Petition& petition, const Answered& done);
  std::string sign(const Petition& petition) const;
  /// Answers with what `finish` says once the record is kept.
  void keep(const CertificateRecord& record, const Answered& done,
            std::function<std::string()> finish);
  /// Returns false where the token was used before.
  bool use_up(const std::string& nonce, int64_t expires);

  std::mutex mutex_;
  const std::shared_ptr<TlsContext> tls_;
  const Credentials authority_;
  std::string folder_;                  ///< empty: lists are kept in memory
  Keep keep_;                           ///< null: it does not lead
  std::map<std::string, int64_t> used_; ///< nonces, and when they expire
};

} // namespace troupe
