#include "monitoring/http_request.hpp"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <utility>

namespace troupe {
namespace {

constexpr size_t max_request_bytes = 8192;

HttpVerdict refusal(const char* status, std::string why) {
  return {HttpVerdict::Kind::refuse, true, status, {}, {}, std::move(why)};
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

/// Of a digit of base 64; -1: it is none.
int digit_of(char digit) {
  constexpr std::string_view digits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const auto found = digits.find(digit);
  return found == digits.npos ? -1 : static_cast<int>(found);
}

/// What base 64 says, as far as it is base 64.
std::string decoded(std::string_view text) {
  std::string out;
  uint32_t bits = 0;
  int count = 0;
  for (const char digit : text) {
    const int value = digit_of(digit);
    if (value < 0)
      break;
    bits = (bits << 6 | static_cast<uint32_t>(value)) & 0xFFF;
    count += 6;
    if (count >= 8) {
      count -= 8;
      out += static_cast<char>(bits >> count & 0xFF);
    }
  }
  return out;
}

/// The password of "NAME:PASSWORD" in base 64; empty: there is none.
std::string password_in(std::string_view credentials) {
  const auto text = decoded(credentials);
  const auto colon = text.find(':');
  return colon == text.npos ? std::string{} : text.substr(colon + 1);
}

/// "Authorization: Bearer TOKEN" among the headers, each behind a line's end;
/// or "Basic", with the token as password.
bool shows(std::string_view headers, std::string_view token) {
  for (auto end = headers.find("\r\n"); end != headers.npos;
       end = headers.find("\r\n")) {
    headers.remove_prefix(end + 2);
    auto line = headers.substr(0, headers.find("\r\n"));
    if (!take(line, "authorization:"))
      continue;
    line = trimmed(line);
    if (take(line, "bearer "))
      return same(trimmed(line), token);
    return take(line, "basic ") && same(password_in(trimmed(line)), token);
  }
  return false;
}

/// Whether "Host:" among the headers is an address, or localhost: what else
/// leads to this host may be a name that a stranger's page made up. One without
/// is not a browser's.
bool names_no_stranger(std::string_view headers) {
  for (auto end = headers.find("\r\n"); end != headers.npos;
       end = headers.find("\r\n")) {
    headers.remove_prefix(end + 2);
    auto line = headers.substr(0, headers.find("\r\n"));
    if (!take(line, "host:"))
      continue;
    const auto host = trimmed(line);
    if (host.starts_with('['))
      return true;
    auto name = host.substr(0, host.find(':'));
    return (take(name, "localhost") && name.empty())
           || name.find_first_not_of("0123456789.") == name.npos;
  }
  return true;
}

/// "a, b and c".
std::string listed(const std::vector<std::string>& paths) {
  std::string out;
  for (size_t i = 0; i < paths.size(); ++i)
    out += (i == 0 ? "" : i + 1 == paths.size() ? " and " : ", ") + paths[i];
  return out;
}

} // namespace

HttpVerdict judge_request(std::string_view received,
                          const std::vector<std::string>& paths,
                          std::string_view token) {
  const auto end = received.find("\r\n\r\n");
  if (end == received.npos || end > max_request_bytes)
    return received.size() > max_request_bytes
             ? refusal("431 Request Header Fields Too Large",
                       "a request here has 8 KiB at most")
             : HttpVerdict{};
  const auto line = received.substr(0, received.find("\r\n"));
  const auto first = line.find(' ');
  const auto last = line.rfind(' ');
  if (first == line.npos || last == first
      || !line.substr(last + 1).starts_with("HTTP/1."))
    return refusal("400 Bad Request", "this is no request of HTTP/1.x");
  if (!token.empty() && !shows(received.substr(0, end), token))
    return refusal("401 Unauthorized",
                   "the job's metrics-token is missing, or is another one: "
                   "show it as a bearer's, or as the password in a browser");
  const auto method = line.substr(0, first);
  if (method != "GET" && method != "HEAD")
    return refusal("405 Method Not Allowed",
                   "whoever asks here only reads: GET and HEAD");
  const auto target = line.substr(first + 1, last - first - 1);
  const auto query = target.find('?');
  const std::string path{target.substr(0, query)};
  if (std::ranges::find(paths, path) == paths.end())
    return refusal("404 Not Found", "what is here: " + listed(paths));
  if (token.empty() && path != metrics_path
      && !names_no_stranger(received.substr(0, end)))
    return refusal("421 Misdirected Request",
                   "without a token this is read at an address, such as "
                   "127.0.0.1, or at localhost");
  return {HttpVerdict::Kind::answer,
          method == "GET",
          "200 OK",
          path,
          query == target.npos ? std::string{}
                               : std::string{target.substr(query + 1)},
          {}};
}

std::string http_answer(const char* status, const WebAnswer& answer,
                        bool body) {
  std::string out = std::string{"HTTP/1.1 "} + status + "\r\n" + answer.headers
                    + "Content-Length: " + std::to_string(answer.body.size())
                    + "\r\nConnection: close\r\n\r\n";
  if (body)
    out += answer.body;
  return out;
}

std::string http_refusal(const HttpVerdict& verdict) {
  std::string headers = "Content-Type: text/plain; charset=utf-8\r\n";
  if (std::string_view{verdict.status}.starts_with("401"))
    headers += "WWW-Authenticate: Bearer\r\n"
               "WWW-Authenticate: Basic realm=\"troupe\"\r\n";
  if (std::string_view{verdict.status}.starts_with("405"))
    headers += "Allow: GET, HEAD\r\n";
  return http_answer(
    verdict.status,
    {headers,
     verdict.status + (verdict.why.empty() ? "" : ": " + verdict.why) + '\n'},
    true);
}

} // namespace troupe
