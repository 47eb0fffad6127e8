#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe {

/// Who signs. Nothing of it may be written anywhere.
struct AwsKeys {
  std::string id;
  std::string secret;
  std::string token; ///< of a session; empty: none

  bool empty() const { return id.empty(); }
};

/// A request without a body, as it is signed.
struct AwsRequest {
  std::string method = "GET";
  std::string host; ///< with the port, where it is not the scheme's own
  std::string path; ///< as it is sent: percent-encoded, begins with /
  std::vector<std::pair<std::string, std::string>> query; ///< not encoded
  /// Fields that are signed besides host and time: lower-case names.
  std::vector<std::pair<std::string, std::string>> headers;
};

/// Percent-encodes all but letters, digits and -._~; a slash stays where
/// `keep_slashes` says so.
std::string percent_encoded(std::string_view text, bool keep_slashes = false);

/// A query as it is signed and sent: encoded, in the order of its bytes.
std::string
canonical_query(const std::vector<std::pair<std::string, std::string>>& query);

/// The fields that sign a request, each "Name: value": Authorization,
/// X-Amz-Date, and of a session its token. `time_s`: seconds since 1970.
/// Source: Amazon, "Signature Version 4 signing process", algorithm
/// AWS4-HMAC-SHA256.
std::vector<std::string>
signed_headers(const AwsRequest& request, const AwsKeys& keys,
               const std::string& region, const std::string& service,
               int64_t time_s);

/// The SHA-256 of an empty body, hexadecimal.
extern const char* const empty_body_sha256;

} // namespace troupe
