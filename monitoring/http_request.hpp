#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace troupe {

/// What to do about what a client has sent so far.
struct HttpVerdict {
  enum class Kind { wait, answer, refuse } kind = Kind::wait;
  bool body = true; ///< answer: HEAD wants none
  const char* status = "";
};

/// Judges a request by its first line, and by the header with the bearer's
/// token where there is to be one; others are passed over, as far as an empty
/// line. A request is for `path`, with or without a query, and at most 8 KiB. A
/// pure function of the bytes.
HttpVerdict judge_request(std::string_view received, std::string_view path,
                          std::string_view token = {});

/// The answer with its headers; the connection closes behind it.
std::string http_answer(const char* status, std::string_view page, bool body);

} // namespace troupe
