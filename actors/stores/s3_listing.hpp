#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

/// An object as a listing names it.
struct ListedObject {
  std::string key;
  uint64_t bytes = 0;
  std::string tag; ///< ETag, with its quotes

  bool operator==(const ListedObject&) const = default;
};

/// One answer of ListObjectsV2.
struct S3Listing {
  std::vector<ListedObject> objects;
  std::string next; ///< the token that the next request takes; empty: the end
};

/// Reads a ListBucketResult; keys are decoded where it says that they are
/// encoded.
/// Errors: nothing where it is no such document, is cut off, holds an object
/// without a key or a size, or goes on without a token.
/// Source: Amazon S3's API reference, ListObjectsV2.
std::optional<S3Listing> parse_s3_listing(std::string_view xml);

/// What an error's document says; fields are empty where it does not, and hold
/// nothing but letters, digits and - else: what a server writes there may name
/// keys, and goes into an error line.
struct S3Error {
  std::string code;
  std::string region;
};
S3Error parse_s3_error(std::string_view xml);

} // namespace troupe
