#include "actors/stores/aws_access.hpp"

#include "kernels/base/error.hpp"
#include "kernels/files/text_lines.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string_view>
#include <vector>

namespace troupe {

namespace {

namespace fs = std::filesystem;

using Values = std::map<std::string, std::string, std::less<>>;

struct ProfileFile {
  std::string path;
  bool has_profile = false;
  Values values;

  std::string value(std::string_view key) const {
    const auto at = values.find(key);
    return at == values.end() ? std::string{} : at->second;
  }
};

/// The values of one section. Lines that go deeper, of a service, are passed
/// over. A line that cannot be read may be a secret: it is not shown.
ProfileFile read_section(const std::string& path,
                         const std::vector<std::string>& names) {
  ProfileFile result;
  result.path = path;
  std::error_code ignored;
  if (path.empty() || !fs::is_regular_file(path, ignored))
    return result;
  TextLines lines{path};
  std::string_view line;
  bool ours = false;
  while (lines.next(line)) {
    const bool indented = line.starts_with(' ') || line.starts_with('\t');
    const auto text = trimmed(line);
    if (text.empty() || text.starts_with('#') || text.starts_with(';'))
      continue;
    if (text.starts_with('[')) {
      const auto end = std::min(text.find(']'), text.size());
      const auto name = trimmed(text.substr(1, end - 1));
      ours = std::find(names.begin(), names.end(), name) != names.end();
      result.has_profile = result.has_profile || ours;
      continue;
    }
    const auto equals = text.find('=');
    if (!ours || indented || equals == text.npos)
      continue;
    result.values.insert_or_assign(
      std::string{trimmed(text.substr(0, equals))},
      std::string{trimmed(text.substr(equals + 1))});
  }
  return result;
}

std::string first_of(std::initializer_list<std::string> values) {
  for (const auto& value : values)
    if (!value.empty())
      return value;
  return {};
}

AwsKeys keys_of(const ProfileFile& file) {
  AwsKeys keys{file.value("aws_access_key_id"),
               file.value("aws_secret_access_key"),
               file.value("aws_session_token")};
  if (keys.id.empty() != keys.secret.empty())
    throw InputError(file.path
                     + ": the profile has one of aws_access_key_id and "
                       "aws_secret_access_key alone; give both");
  return keys;
}

/// A line's end, or worse, would end up in a request's head.
void check_plain(const std::string& value, const char* what) {
  for (const auto c : value)
    if (static_cast<unsigned char>(c) <= ' ' || c == 0x7f)
      throw InputError(std::string{what}
                       + " of the store holds a space or a control character; "
                         "set it anew");
}

void check_elsewhere(const ProfileFile& file, const std::string& profile) {
  for (const auto* key :
       {"credential_process", "sso_session", "sso_start_url", "role_arn",
        "web_identity_token_file", "credential_source"})
    if (!file.value(key).empty())
      throw InputError(file.path + ": the profile " + in_quotes(profile)
                       + " has its keys from " + key
                       + "=, which is not read; run: eval \"$(aws configure "
                         "export-credentials --format env)\"");
}

} // namespace

Environment process_environment() {
  return [](const char* name) {
    const char* value = std::getenv(name);
    return std::string{value == nullptr ? "" : value};
  };
}

AwsAccess read_aws_access(const Environment& environment) {
  const auto home = environment("HOME");
  const auto beside_home = [&](const char* name) {
    return home.empty() ? std::string{} : home + "/.aws/" + name;
  };
  const auto named = environment("AWS_PROFILE");
  const auto profile = named.empty() ? std::string{"default"} : named;
  const auto secrets =
    read_section(first_of({environment("AWS_SHARED_CREDENTIALS_FILE"),
                           beside_home("credentials")}),
                 {profile});
  const auto in_config = "profile " + profile;
  const auto config = read_section(
    first_of({environment("AWS_CONFIG_FILE"), beside_home("config")}),
    profile == "default" ? std::vector<std::string>{profile, in_config}
                         : std::vector<std::string>{in_config});
  if (!named.empty() && !secrets.has_profile && !config.has_profile)
    throw InputError("AWS_PROFILE names " + in_quotes(named)
                     + ", which is neither in " + first_of({secrets.path, "~"})
                     + " nor in " + first_of({config.path, "~"})
                     + "; name a profile that is there");
  AwsAccess access;
  const AwsKeys own{environment("AWS_ACCESS_KEY_ID"),
                    environment("AWS_SECRET_ACCESS_KEY"),
                    environment("AWS_SESSION_TOKEN")};
  if (own.id.empty() != own.secret.empty())
    throw InputError("one of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY is "
                     "set alone; set both, or neither");
  if (!own.empty())
    access.keys = own;
  if (!access.has_keys())
    access.keys = keys_of(secrets);
  if (!access.has_keys())
    access.keys = keys_of(config);
  if (!access.has_keys())
    for (const auto* file : {&secrets, &config})
      check_elsewhere(*file, profile);
  access.region =
    first_of({environment("AWS_REGION"), environment("AWS_DEFAULT_REGION"),
              secrets.value("region"), config.value("region")});
  access.endpoint = first_of(
    {environment("AWS_ENDPOINT_URL_S3"), environment("AWS_ENDPOINT_URL"),
     secrets.value("endpoint_url"), config.value("endpoint_url")});
  check_plain(access.keys.id, "the access key");
  check_plain(access.keys.secret, "the secret key");
  check_plain(access.keys.token, "the session's token");
  check_plain(access.region, "the region");
  check_plain(access.endpoint, "the endpoint");
  while (access.endpoint.ends_with('/'))
    access.endpoint.pop_back();
  if (!access.endpoint.empty() && !access.endpoint.starts_with("http://")
      && !access.endpoint.starts_with("https://"))
    throw InputError("the endpoint of the store is not of the form "
                     "http[s]://HOST[:PORT]; mend AWS_ENDPOINT_URL, or "
                     "endpoint_url in the profile");
  return access;
}

} // namespace troupe
