#include "actors/certificates/petitioner.hpp"
#include "apps/settings/commands.hpp"
#include "kernels/base/error.hpp"
#include "kernels/files/input_file.hpp"

#include <cstdio>
#include <filesystem>
#include <set>

namespace troupe {
namespace {

constexpr std::chrono::seconds ask_deadline{5};
constexpr uint64_t longest_file = uint64_t{1} << 20; ///< of a chain of them

MemberName member_of(const Settings& settings) {
  return *parse_member_name(settings.member);
}

void print_written(const std::string& folder, const Credentials& member) {
  const auto certificate = certificate_in(member.certificate);
  std::printf("%s/%s.pem, until %s\n", folder.c_str(),
              file_stem(member.name).c_str(),
              date(period_of(certificate.get()).to).c_str());
}

int make_new(const Settings& settings) {
  const auto source = certificate_source(settings);
  // Whoever has the authority's key is whoever it likes.
  const auto authority = make_credentials(source, operator_name);
  const auto& folder = settings.out.empty() ? source.path : settings.out;
  const auto member = make_member(authority, member_of(settings));
  save_credentials(folder, member);
  print_written(folder, member);
  return 0;
}

int make_join_token(const Settings& settings) {
  const auto authority = load_credentials(certificate_source(settings),
                                          operator_name);
  if (!authority.signer.empty()
      && member_of(settings).kind == MemberName::Kind::authority)
    throw InputError("certificates: " + settings.certificates
                     + ": an authority is made where ca.key is");
  const auto token = make_token(authority, member_of(settings),
                                static_cast<int64_t>(settings.token_seconds));
  std::printf("%s\n", to_string(token).c_str());
  return 0;
}

int renew(const Settings& settings) {
  const TlsContext tls{
    load_credentials(certificate_source(settings), member_of(settings))};
  if (!tls.credentials().authority_key.empty())
    throw InputError("certificates: " + settings.certificates
                     + " has the authority's key: whoever reads it makes its "
                       "own, there is nothing to renew");
  const auto made = renewed(tls, settings.coordinator, ask_deadline);
  save_credentials(settings.certificates, made);
  print_written(settings.certificates, made);
  return 0;
}

int revoke(const Settings& settings) {
  const TlsContext tls{
    load_credentials(certificate_source(settings), operator_name)};
  const auto name = member_of(settings);
  petition(tls, settings.coordinator, {Petition::Kind::revoke, name, {}, {}},
           ask_deadline);
  std::printf("%s is cut off; a certificate made from now on is taken again\n",
              to_string(name).c_str());
  return 0;
}

void print_about(const std::filesystem::path& path, int64_t now) {
  const auto title = path.filename().string();
  Certificate certificate;
  try {
    certificate =
      certificate_in(whole_file(path.string(), longest_file, "a certificate"));
  } catch (const InputError&) { // it is none
  }
  if (!certificate) {
    std::printf("%s: no certificate\n", title.c_str());
    return;
  }
  const auto name = name_in(certificate.get());
  const auto period = period_of(certificate.get());
  std::printf("%s: %s, from %s to %s%s\n  SHA-256 %s\n", title.c_str(),
              name ? to_string(*name).c_str() : "no member's",
              date(period.from).c_str(), date(period.to).c_str(),
              why_not_now(period, now).empty() ? "" : " (not now)",
              fingerprint(certificate.get()).c_str());
}

int show(const Settings& settings) {
  namespace fs = std::filesystem;
  std::error_code failure;
  std::set<fs::path> files;
  for (fs::directory_iterator entry{settings.certificates, failure}, end;
       !failure && entry != end; entry.increment(failure))
    if (entry->path().extension() == ".pem")
      files.insert(entry->path());
  if (failure)
    throw InputError("certificates: " + settings.certificates + ": "
                     + failure.message());
  for (const auto& path : files)
    print_about(path, certificate_source(settings).now());
  return 0;
}

} // namespace

int run_certificates(const Settings& settings) {
  const auto& command = settings.command;
  if (command == "certificates new")
    return make_new(settings);
  if (command == "certificates token")
    return make_join_token(settings);
  if (command == "certificates renew")
    return renew(settings);
  if (command == "certificates revoke")
    return revoke(settings);
  return show(settings);
}

} // namespace troupe
