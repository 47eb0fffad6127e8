#pragma once

#include "monitoring/web_page.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

/// What Prometheus reads, under whatever name of this host.
inline constexpr std::string_view metrics_path = "/metrics";

/// What to do about what a client has sent so far.
struct HttpVerdict {
  enum class Kind { wait, answer, refuse } kind = Kind::wait;
  bool body = true; ///< answer: HEAD wants none
  const char* status = "";
  std::string path{};  ///< answer: the page that is asked for
  std::string query{}; ///< answer: what stands behind its '?'
  std::string why{};   ///< refuse: a sentence for who asked
};

/// Judges a request by its first line, and by the header with the token where
/// there is to be one (as a bearer's, or as the password of any name, which is
/// how a browser shows it); others are passed over, as far as an empty line. A
/// request is for one of `paths`, with or without a query, and at most 8 KiB.
/// Where there is no token, other paths than metrics_path are for who names
/// this host by an address or as localhost: a stranger's page could read them
/// under a name of its own that leads here. A pure function of the bytes.
HttpVerdict judge_request(std::string_view received,
                          const std::vector<std::string>& paths,
                          std::string_view token = {});

/// The answer with its headers; the connection closes behind it.
std::string http_answer(const char* status, const WebAnswer& answer, bool body);
/// What a request is refused with: a line that says why.
std::string http_refusal(const HttpVerdict& verdict);

} // namespace troupe
