#include "monitoring/http_request.hpp"

#include <algorithm>
#include <cctype>

namespace troupe {
namespace {

constexpr size_t max_request_bytes = 8192;

HttpVerdict refusal(const char* status) {
  return {HttpVerdict::Kind::refuse, true, status};
}

/// Takes as long whatever is wrong, so that nobody learns it bit by bit.
bool same(std::string_view one, std::string_view other) {
  unsigned different = one.size() == other.size() ? 0 : 1;
  for (size_t i = 0; i < one.size() && i < other.size(); ++i)
    different |= static_cast<unsigned>(one[i] ^ other[i]);
  return different == 0;
}

/// Takes a word off the front, written large or small.
bool take(std::string_view& text, std::string_view word) {
  const bool there = text.size() >= word.size()
                     && std::equal(word.begin(), word.end(), text.begin(),
                                   [](unsigned char a, unsigned char b) {
                                     return a == std::tolower(b);
                                   });
  if (there)
    text.remove_prefix(word.size());
  return there;
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  return first == text.npos
           ? std::string_view{}
           : text.substr(first, text.find_last_not_of(" \t") + 1 - first);
}

/// "Authorization: Bearer TOKEN" among the headers, each behind a line's end.
bool shows(std::string_view headers, std::string_view token) {
  for (auto end = headers.find("\r\n"); end != headers.npos;
       end = headers.find("\r\n")) {
    headers.remove_prefix(end + 2);
    auto line = headers.substr(0, headers.find("\r\n"));
    if (!take(line, "authorization:"))
      continue;
    line = trimmed(line);
    return take(line, "bearer ") && same(trimmed(line), token);
  }
  return false;
}

} // namespace

HttpVerdict judge_request(std::string_view received, std::string_view path,
                          std::string_view token) {
  const auto end = received.find("\r\n\r\n");
  if (end == received.npos || end > max_request_bytes)
    return received.size() > max_request_bytes
             ? refusal("431 Request Header Fields Too Large")
             : HttpVerdict{};
  const auto line = received.substr(0, received.find("\r\n"));
  const auto first = line.find(' ');
  const auto last = line.rfind(' ');
  if (first == line.npos || last == first
      || !line.substr(last + 1).starts_with("HTTP/1."))
    return refusal("400 Bad Request");
  if (!token.empty() && !shows(received.substr(0, end), token))
    return refusal("401 Unauthorized\r\nWWW-Authenticate: Bearer");
  const auto method = line.substr(0, first);
  if (method != "GET" && method != "HEAD")
    return refusal("405 Method Not Allowed");
  const auto target = line.substr(first + 1, last - first - 1);
  if (target.substr(0, target.find('?')) != path)
    return refusal("404 Not Found");
  return {HttpVerdict::Kind::answer, method == "GET", "200 OK"};
}

std::string http_answer(const char* status, std::string_view page, bool body) {
  std::string out = std::string{"HTTP/1.1 "} + status
                    + "\r\nContent-Type: text/plain; version=0.0.4; "
                      "charset=utf-8\r\nContent-Length: "
                    + std::to_string(page.size())
                    + "\r\nConnection: close\r\n\r\n";
  if (body)
    out += page;
  return out;
}

} // namespace troupe
