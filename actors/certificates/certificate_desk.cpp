#include "actors/certificates/certificate_desk.hpp"

#include "actors/certificates/join_token.hpp"
#include "actors/sockets/descriptor.hpp"
#include "kernels/base/error.hpp"

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
  out.request = std::string{std::istreambuf_iterator<char>{lines}, {}};
  if (!is_whole(out.request))
    return std::nullopt; // the last line was one of the fields
  out.request.resize(out.request.size() - last_line.size());
  return out;
}

CertificateDesk::CertificateDesk(const Credentials& authority,
                                 std::shared_ptr<Revocations> revocations)
  : authority_(authority), revocations_(std::move(revocations)) {
  std::error_code failure;
  if (!std::filesystem::is_directory(authority.folder, failure))
    return;
  folder_ = authority.folder;
  revocations_->keep_in(folder_ + "/revoked");
}

std::string CertificateDesk::answer(const MemberName& peer,
                                    const std::string& text) {
  const auto petition = petition_of(text);
  if (!petition)
    return refused("that is no question to whoever signs: is it another build "
                   "of troupe?");
  const std::lock_guard guard{mutex_};
  try {
    return judge(peer, *petition);
  } catch (const std::exception& failure) {
    return refused(failure.what());
  }
}

std::string CertificateDesk::judge(const MemberName& peer,
                                   const Petition& petition) {
  switch (petition.kind) {
    case Petition::Kind::join:
      return join(petition);
    case Petition::Kind::renew:
      if (peer != petition.name)
        return refused("the certificate shown is that of " + to_string(peer)
                       + ", not of " + to_string(petition.name));
      return sign(petition);
    case Petition::Kind::revoke:
      if (peer != operator_name)
        return refused("only an operator revokes, and this is "
                       + to_string(peer));
      revocations_->revoke(petition.name, authority_.source.now());
      if (revoked)
        revoked(petition.name);
      return "ok\n";
  }
  return refused("nothing is asked for");
}

std::string CertificateDesk::join(const Petition& petition) {
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
  if (!use_up(token->nonce, token->expires))
    return refused("the token was used before; make another");
  return sign(petition);
}

std::string CertificateDesk::sign(const Petition& petition) const {
  const auto request = request_in(petition.request);
  const auto key = key_asked_for(request.get());
  const auto authority = certificate_in(authority_.authority);
  const auto authority_key = key_in(authority_.authority_key);
  if (!key)
    return refused("what is to be signed is no request with a key of its own");
  if (!authority || !authority_key)
    return refused("the coordinator has no authority's key");
  const auto made = issue(petition.name, key.get(), authority.get(),
                          authority_key.get(), authority_.source.now(),
                          authority_.source.valid_seconds);
  return "ok\n" + authority_.authority + to_pem(made.get());
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
