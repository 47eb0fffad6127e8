#pragma once

#include "strategies/fetch_tries.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace troupe {

/// The field Content-Range of an answer: bytes [first, last] of `total`.
struct ContentRange {
  std::optional<uint64_t> first; ///< none: of an answer that has no part
  uint64_t last = 0;
  std::optional<uint64_t> total; ///< none: the server does not know

  bool operator==(const ContentRange&) const = default;
};

/// Errors: none; text that is no such field gives nothing.
/// Source: RFC 9110, 14.4.
std::optional<ContentRange> parse_content_range(std::string_view text);

/// What an HTTP server says before the body.
struct HttpAnswer {
  int status = 0; ///< 0: none came
  std::optional<uint64_t> length;
  std::optional<ContentRange> range;
  std::string tag;      ///< ETag, as it stands there
  std::string modified; ///< Last-Modified
  std::string region;   ///< x-amz-bucket-region, where it is a region's name
  uint64_t retry_after_s = 0;

  /// What tells one state of an object from another: its tag, else when it was
  /// last modified; empty where the server says neither.
  std::string state() const;
};

/// Takes a line of an answer's head, without its end. A status line begins the
/// answer anew: after a redirect, or "100 Continue", comes another one. What is
/// not known, or longer than it can be, is passed over.
void take_header(std::string_view line, HttpAnswer& answer);

/// Whether a tag may stand in If-Match: it is there, and not weak.
bool is_strong_tag(std::string_view tag);

/// What was asked for.
struct RangeWish {
  uint64_t first = 0;
  uint64_t last = 0;
  /// Of an object that was opened before: its length and state().
  std::optional<uint64_t> total;
  std::string state;
};

/// How a try ended, and in the line's words why.
struct Judgement {
  FetchEnd end = FetchEnd::odd;
  std::string why;
};

/// Judges an answer by its head: `whole` where its body, complete, is what was
/// asked for.
Judgement judge(const HttpAnswer& answer, const RangeWish& wish);

} // namespace troupe
