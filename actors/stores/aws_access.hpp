#pragma once

#include "actors/stores/aws_signature.hpp"

#include <functional>
#include <string>

namespace troupe {

/// How this process reaches S3: from its own environment and its user's files,
/// never from a job's description.
struct AwsAccess {
  AwsKeys keys;         ///< empty: requests are not signed
  std::string region;   ///< empty: us-east-1, until the store says another
  std::string endpoint; ///< "http://127.0.0.1:9000"; empty: Amazon's own

  bool has_keys() const { return !keys.empty(); }
};

/// The value of a variable of the environment, or nothing.
using Environment = std::function<std::string(const char* name)>;
Environment process_environment();

/// Looks where Amazon's own tools look, the first that says something:
///   keys      AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN,
///             also beside AWS_PROFILE, as botocore's chain has it; then the
///             profile (AWS_PROFILE, default) in AWS_SHARED_CREDENTIALS_FILE
///             (~/.aws/credentials) and AWS_CONFIG_FILE (~/.aws/config)
///   region    AWS_REGION, AWS_DEFAULT_REGION, the profile's
///   endpoint  AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, the profile's
///             endpoint_url
/// Errors: InputError naming the file (a profile that is named and nowhere, a
/// key without its secret, keys that come from a place that is not read); no
/// line shows a value.
AwsAccess read_aws_access(const Environment& environment);

} // namespace troupe
