#include "actors/certificates/certificate_desk.hpp"

#include "actors/certificates/join_token.hpp"
#include "actors/certificates/revocations.hpp"
#include "actors/sockets/descriptor.hpp"
#include "kernels/base/error.hpp"
#include "kernels/base/rest_of.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <sstream>
#include <stdexcept>

namespace troupe {
namespace {

constexpr const char* first_line = "troupe certificates 1";
constexpr std::string_view last_line = "end\n";
constexpr std::array kinds{"join", "renew", "revoke"};
constexpr size_t max_used = 65'536;
constexpr const char* leads_not =
  "another coordinator leads, and that one is to be asked";

std::string refused(const std::string& why) {
  return "refused: " + why + '\n';
}

} // namespace

std::string to_text(const Petition& petition) {
  return std::string{first_line} + '\n'
         + kinds.at(static_cast<size_t>(petition.kind)) + '\n'
         + to_string(petition.name) + '\n' + petition.token + '\n'
         + petition.request + std::string{last_line};
}

bool is_whole(const std::string& text) {
  return text.ends_with(last_line);
}

bool is_granted(const std::string& answer) {
  return answer.starts_with("ok\n");
}

std::optional<Petition> petition_of(const std::string& text) {
  std::istringstream lines{text};
  std::string first;
  std::string kind;
  std::string name;
  Petition out;
  if (!is_whole(text) || text.size() > longest_petition
      || !std::getline(lines, first) || first != first_line
      || !std::getline(lines, kind) || !std::getline(lines, name)
      || !std::getline(lines, out.token))
    return std::nullopt;
  const auto* found = std::find(kinds.begin(), kinds.end(), kind);
  const auto member = parse_member_name(name);
  if (found == kinds.end() || !member)
    return std::nullopt;
  out.kind = static_cast<Petition::Kind>(found - kinds.begin());
  out.name = *member;
  out.request = rest_of(lines);
  if (!is_whole(out.request))
    return std::nullopt; // the last line was one of the fields
  out.request.resize(out.request.size() - last_line.size());
  return out;
}

CertificateDesk::CertificateDesk(std::shared_ptr<TlsContext> tls)
  : tls_(std::move(tls)), authority_(tls_->credentials()) {
  std::error_code failure;
  if (!std::filesystem::is_directory(authority_.folder, failure))
    return;
  folder_ = authority_.folder;
  tls_->revocations()->keep_in(folder_ + "/revoked");
}

void CertificateDesk::lead(Keep keep,
                           const std::map<std::string, int64_t>& used) {
  const std::lock_guard guard{mutex_};
  keep_ = std::move(keep);
  used_.insert(used.begin(), used.end());
}

void CertificateDesk::answer(const MemberName& peer, const std::string& text,
                             const Answered& done) {
  std::string said;
  if (const auto petition = petition_of(text)) {
    const std::lock_guard guard{mutex_};
    try {
      said = judge(peer, *petition, done);
    } catch (const std::exception& failure) {
      said = refused(failure.what());
    }
  } else {
    said = refused("that is no question to whoever signs: is it another build "
                   "of troupe?");
  }
  if (!said.empty())
    done(said);
}

std::string CertificateDesk::judge(const MemberName& peer,
                                   const Petition& petition,
                                   const Answered& done) {
  switch (petition.kind) {
    case Petition::Kind::join:
      return join(petition, done);
    case Petition::Kind::renew:
      if (peer != petition.name)
        return refused("the certificate shown is that of " + to_string(peer)
                       + ", not of " + to_string(petition.name));
      return sign(petition);
    case Petition::Kind::revoke:
      return revoke(peer, petition, done);
  }
  return refused("nothing is asked for");
}

void CertificateDesk::keep(const CertificateRecord& record,
                           const Answered& done,
                           std::function<std::string()> finish) {
  keep_(record, [own = weak_from_this(), done, finish = std::move(finish)] {
    const auto desk = own.lock();
    if (!desk)
      return;
    std::string said;
    try {
      said = finish();
    } catch (const std::exception& failure) {
      said = refused(failure.what());
    }
    done(said);
  });
}

std::string CertificateDesk::revoke(const MemberName& peer,
                                    const Petition& petition,
                                    const Answered& done) {
  if (peer != operator_name)
    return refused("only an operator revokes, and this is " + to_string(peer));
  if (!keep_)
    return refused(leads_not);
  const auto until = authority_.source.now();
  keep({CertificateRecord::Kind::revoked, petition.name, {}, until}, done,
       [this, name = petition.name, until]() -> std::string {
         tls_->revoke(name, until);
         return "ok\n";
       });
  return {};
}

std::string CertificateDesk::join(const Petition& petition,
                                  const Answered& done) {
  const auto token = parse_token(petition.token);
  const auto now = authority_.source.now();
  if (!token || !is_genuine(*token, authority_))
    return refused("the token was not made for this job; make one where ca.key "
                   "is: troupe certificates token");
  if (token->name != petition.name)
    return refused("the token is for " + to_string(token->name));
  if (token->expires < now)
    return refused("the token held until " + date(token->expires)
                   + ", and the coordinator's clock says " + date(now));
  if (!keep_)
    return refused(leads_not);
  if (!use_up(token->nonce, token->expires))
    return refused("the token was used before; make another");
  keep({CertificateRecord::Kind::token_used, token->name, token->nonce,
        token->expires},
       done, [this, petition] { return sign(petition); });
  return {};
}

std::string CertificateDesk::sign(const Petition& petition) const {
  const auto request = request_in(petition.request);
  const auto key = key_asked_for(request.get());
  const auto authority = certificate_in(signer_of(authority_));
  const auto authority_key = key_in(authority_.authority_key);
  if (!key)
    return refused("what is to be signed is no request with a key of its own");
  if (!authority || !authority_key)
    return refused("the coordinator has no authority's key");
  const auto now = authority_.source.now();
  if (petition.name.kind == MemberName::Kind::authority) {
    if (!authority_.signer.empty())
      return refused("only who has ca.key makes another authority");
    const auto below = issue_authority(
      petition.name, key.get(), authority.get(), authority_key.get(), now);
    return "ok\n" + authority_.authority + to_pem(below.get());
  }
  const auto made = issue(petition.name, key.get(), authority.get(),
                          authority_key.get(), now,
                          authority_.source.valid_seconds);
  return "ok\n" + authority_.authority + to_pem(made.get()) + authority_.signer;
}

bool CertificateDesk::use_up(const std::string& nonce, int64_t expires) {
  const auto now = authority_.source.now();
  std::erase_if(used_, [&](const auto& one) { return one.second < now; });
  if (used_.size() >= max_used || !used_.try_emplace(nonce, expires).second)
    return false;
  if (folder_.empty())
    return true;
  // Two coordinators may share the folder, and one that is started again has
  // forgotten.
  const auto spent = folder_ + "/used-tokens";
  ::mkdir(spent.c_str(), 0700);
  const Descriptor mark{::open((spent + '/' + nonce).c_str(),
                               O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)};
  return static_cast<bool>(mark);
}

} // namespace troupe
