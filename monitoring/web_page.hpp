#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace troupe {

/// What a web server says to who asked for a page.
struct WebAnswer {
  /// Whole lines of a head, each with its end, but for length and connection.
  std::string headers;
  std::string body;
};

/// A page of a web server.
struct WebPage {
  std::string path; ///< such as "/metrics"
  /// Makes the answer to a request with this query, what stands behind '?'; on
  /// the server's thread.
  std::function<WebAnswer(std::string_view query)> make;
};

} // namespace troupe
