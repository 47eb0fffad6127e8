#include "actors/stores/aws_access.hpp"
#include "tests/unit/kernels/data_files.hpp"

#include <map>
#include <string>

using namespace troupe;
using namespace troupe::testing;

BOOST_AUTO_TEST_SUITE(aws_access)

namespace {

using Variables = std::map<std::string, std::string>;

Environment environment_of(Variables variables) {
  return [variables = std::move(variables)](const char* name) {
    const auto at = variables.find(name);
    return at == variables.end() ? std::string{} : at->second;
  };
}

constexpr auto credentials = R"([default]
aws_access_key_id = DEFAULT
aws_secret_access_key=default/secret
; a comment
[other]
aws_access_key_id=OTHER
aws_secret_access_key=other/secret
aws_session_token = other=token=
)";

constexpr auto config = R"([default]
region = eu-west-1
[profile other]
region = us-west-2
endpoint_url = http://127.0.0.1:9000/
s3 =
    endpoint_url = http://not.read
[profile process]
credential_process = /bin/keys
)";

/// A home with both files.
struct Home {
  Folder folder;

  Home() {
    std::filesystem::create_directories(folder.path / ".aws");
    folder.put(".aws/credentials", std::string{credentials});
    folder.put(".aws/config", std::string{config});
  }
  AwsAccess read(Variables variables = {}) const {
    variables.emplace("HOME", folder.path.string());
    return read_aws_access(environment_of(std::move(variables)));
  }
};

} // namespace

BOOST_AUTO_TEST_CASE(without_anything_requests_are_not_signed) {
  const auto access = read_aws_access(environment_of({}));
  BOOST_TEST(!access.has_keys());
  BOOST_TEST(access.region.empty());
  BOOST_TEST(access.endpoint.empty());
}

BOOST_AUTO_TEST_CASE(the_environment_comes_first) {
  const Home home;
  const auto access = home.read({{"AWS_ACCESS_KEY_ID", "ID"},
                                 {"AWS_SECRET_ACCESS_KEY", "secret"},
                                 {"AWS_SESSION_TOKEN", "token"},
                                 {"AWS_REGION", "eu-north-1"},
                                 {"AWS_DEFAULT_REGION", "us-east-2"},
                                 {"AWS_ENDPOINT_URL", "https://store:9000"}});
  BOOST_TEST(access.keys.id == "ID");
  BOOST_TEST(access.keys.secret == "secret");
  BOOST_TEST(access.keys.token == "token");
  BOOST_TEST(access.region == "eu-north-1");
  BOOST_TEST(access.endpoint == "https://store:9000");
}

BOOST_AUTO_TEST_CASE(the_user_s_files_have_a_default_profile) {
  const Home home;
  const auto access = home.read();
  BOOST_TEST(access.keys.id == "DEFAULT");
  BOOST_TEST(access.keys.secret == "default/secret");
  BOOST_TEST(access.keys.token.empty());
  BOOST_TEST(access.region == "eu-west-1");
}

BOOST_AUTO_TEST_CASE(a_profile_that_is_named_is_read) {
  const Home home;
  const auto access = home.read({{"AWS_PROFILE", "other"}});
  BOOST_TEST(access.keys.id == "OTHER");
  BOOST_TEST(access.keys.token == "other=token=");
  BOOST_TEST(access.region == "us-west-2");
  BOOST_TEST(access.endpoint == "http://127.0.0.1:9000");
}

// The profile's keys were taken, where Amazon's own tools take those beside it.
BOOST_AUTO_TEST_CASE(
  keys_of_the_environment_are_stronger_than_a_named_profile) {
  const Home home;
  const auto access = home.read({{"AWS_PROFILE", "other"},
                                 {"AWS_ACCESS_KEY_ID", "ID"},
                                 {"AWS_SECRET_ACCESS_KEY", "secret"}});
  BOOST_TEST(access.keys.id == "ID");
  BOOST_TEST(access.keys.secret == "secret");
  BOOST_TEST(access.keys.token.empty());
  BOOST_TEST(access.region == "us-west-2");
  BOOST_TEST(access.endpoint == "http://127.0.0.1:9000");
}

BOOST_AUTO_TEST_CASE(files_may_lie_elsewhere) {
  const Folder folder;
  const auto path = folder.put("keys", std::string{credentials});
  const auto access =
    read_aws_access(environment_of({{"AWS_SHARED_CREDENTIALS_FILE", path}}));
  BOOST_TEST(access.keys.id == "DEFAULT");
}

BOOST_AUTO_TEST_CASE(mistakes_are_one_line_without_a_value) {
  const Home home;
  const auto refused = [&](Variables variables,
                           std::vector<std::string> words) {
    BOOST_CHECK_EXCEPTION(home.read(std::move(variables)), InputError,
                          [&](const InputError& error) {
                            const std::string text = error.what();
                            return says(words)(error)
                                   && text.find("secret/") == text.npos
                                   && text.find("hidden") == text.npos;
                          });
  };
  refused({{"AWS_PROFILE", "none"}}, {"AWS_PROFILE", "none"});
  refused({{"AWS_ACCESS_KEY_ID", "hidden"}}, {"AWS_SECRET_ACCESS_KEY"});
  refused({{"AWS_SECRET_ACCESS_KEY", "hidden"}}, {"AWS_ACCESS_KEY_ID"});
  refused({{"AWS_PROFILE", "other"}, {"AWS_ACCESS_KEY_ID", "hidden"}},
          {"AWS_SECRET_ACCESS_KEY"});
  refused({{"AWS_ACCESS_KEY_ID", "hid den"},
           {"AWS_SECRET_ACCESS_KEY", "hidden"}},
          {"control character"});
  refused({{"AWS_ENDPOINT_URL", "hidden:9000"}}, {"AWS_ENDPOINT_URL"});
  refused({{"AWS_PROFILE", "process"}}, {"credential_process", "export"});
  home.folder.put(".aws/credentials", "[lent]\nrole_arn = arn:hidden\n");
  refused({{"AWS_PROFILE", "lent"}}, {"credentials", "role_arn", "export"});
  home.folder.put(".aws/credentials", "[default]\naws_access_key_id=hidden\n");
  refused({}, {"credentials", "aws_secret_access_key"});
}

BOOST_AUTO_TEST_SUITE_END()
