#include "actors/stores/s3_address.hpp"

#include "kernels/base/error.hpp"
#include "kernels/files/file_url.hpp"

#include <algorithm>

namespace troupe {

namespace {

bool is_bucket_name(std::string_view name) {
  constexpr size_t longest = 255; // older ones; today's have 63
  return !name.empty() && name.size() <= longest
         && std::all_of(name.begin(), name.end(), [](char c) {
              return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')
                     || (c >= '0' && c <= '9') || c == '-' || c == '.'
                     || c == '_';
            });
}

/// As a host's name: older buckets and those with dots cannot be one.
bool is_host_name(std::string_view bucket) {
  return bucket.size() <= 63
         && std::all_of(bucket.begin(), bucket.end(), [](char c) {
              return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')
                     || c == '-';
            });
}

/// "host:port" of "http://host:port"; the scheme's own port is left out, as
/// it is in the request's field.
std::string host_of(std::string_view endpoint) {
  const bool secure = endpoint.starts_with("https://");
  std::string host{endpoint.substr(secure ? 8 : 7)};
  host = host.substr(0, host.find('/'));
  const std::string own = secure ? ":443" : ":80";
  if (host.ends_with(own))
    host.resize(host.size() - own.size());
  return host;
}

/// What an endpoint has after its host, without the slash at its end.
std::string path_of(std::string_view endpoint) {
  const auto host = endpoint.find("://") + 3;
  const auto slash = endpoint.find('/', host);
  return slash == endpoint.npos ? std::string{}
                                : std::string{endpoint.substr(slash)};
}

} // namespace

S3Place parse_s3_place(std::string_view url) {
  constexpr std::string_view scheme = "s3://";
  if (!url.starts_with(scheme))
    throw InputError(shown_place(url) + ": is not of the form s3://BUCKET/KEY");
  const auto rest = url.substr(scheme.size());
  const auto slash = std::min(rest.find('/'), rest.size());
  S3Place place{std::string{rest.substr(0, slash)}, {}};
  if (slash < rest.size())
    place.key = rest.substr(slash + 1);
  if (!is_bucket_name(place.bucket))
    throw InputError(shown_place(url) + ": no bucket can be called that; write "
                     + "s3://BUCKET/KEY");
  return place;
}

S3Address s3_address(const S3Place& place, const AwsAccess& access,
                     const std::string& region, const Query& query) {
  S3Address result;
  result.region = region;
  if (result.region.empty())
    result.region = access.region.empty() ? "us-east-1" : access.region;
  auto endpoint = access.endpoint;
  bool in_path = !endpoint.empty() || !is_host_name(place.bucket);
  if (endpoint.empty())
    endpoint = "https://" + (in_path ? "" : place.bucket + ".") + "s3."
               + result.region + ".amazonaws.com"
               + (result.region.starts_with("cn-") ? ".cn" : "");
  auto& request = result.request;
  request.host = host_of(endpoint);
  request.path = path_of(endpoint) + (in_path ? "/" + place.bucket : "") + "/"
                 + percent_encoded(place.key, true);
  request.query = query;
  request.headers = {{"x-amz-content-sha256", empty_body_sha256}};
  const auto scheme = endpoint.substr(0, endpoint.find("://") + 3);
  result.url =
    scheme
    + endpoint.substr(scheme.size(),
                      endpoint.find('/', scheme.size()) - scheme.size())
    + request.path;
  if (!query.empty())
    result.url += '?' + canonical_query(query);
  return result;
}

} // namespace troupe
