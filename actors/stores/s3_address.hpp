#pragma once

#include "actors/stores/aws_access.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe {

/// s3://BUCKET/KEY taken apart.
struct S3Place {
  std::string bucket;
  std::string key; ///< as it is called: nothing is encoded

  std::string url() const { return "s3://" + bucket + '/' + key; }
};

/// Errors: InputError (no s3:// URL, or what no bucket can be called).
S3Place parse_s3_place(std::string_view url);

/// Where a request for a bucket goes: Amazon's own address of a region, with
/// the bucket before the host's name; behind another endpoint, and where a
/// bucket's name has dots, with the bucket at the path's beginning.
struct S3Address {
  std::string url;    ///< to send to, with the query
  AwsRequest request; ///< to sign
  std::string region;
};

using Query = std::vector<std::pair<std::string, std::string>>;

/// `key` may be empty: the bucket itself. `region` overrides the access's.
S3Address s3_address(const S3Place& place, const AwsAccess& access,
                     const std::string& region, const Query& query = {});

} // namespace troupe
