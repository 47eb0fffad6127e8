#include "monitoring/http_request.hpp"

namespace troupe {
namespace {

constexpr size_t max_request_bytes = 8192;

HttpVerdict refusal(const char* status) {
  return {HttpVerdict::Kind::refuse, true, status};
}

} // namespace

HttpVerdict judge_request(std::string_view received, std::string_view path) {
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
