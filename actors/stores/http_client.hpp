#pragma once

#include "actors/stores/http_answer.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace troupe {

/// One GET.
struct HttpRequest {
  std::string url;
  std::vector<std::string> fields;            ///< "Name: value"
  bool follow = false;                        ///< redirects, five at most
  std::chrono::milliseconds patience{60'000}; ///< for all of it
  /// What an answer of the 200s may bring; more ends the try.
  uint64_t max_bytes = 0;
  bool wants_part = false; ///< of 200 nothing is taken, since 206 was wanted
};

/// How it went.
struct HttpTry {
  HttpAnswer answer;
  /// What ended it before the answer was complete; `whole` where nothing did.
  FetchEnd end = FetchEnd::whole;
  std::string why;        ///< in the line's words; shows neither URL nor field
  bool over = false;      ///< the answer brings more than `max_bytes`
  std::string error_body; ///< of an answer above 299, at most 64 KiB
};

/// Makes requests over HTTP and HTTPS by libcurl, from any number of threads;
/// connections are kept and used again. TLS checks host and certificate
/// against the system's authorities, or those of CURL_CA_BUNDLE,
/// AWS_CA_BUNDLE or SSL_CERT_FILE. Proxies are taken from the environment, as
/// curl takes them.
class HttpClient {
public:
  HttpClient();
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  /// Appends the body of an answer of the 200s to `body` as it comes. Ends
  /// within `patience`, and soon after `ending` becomes true.
  HttpTry get(const HttpRequest& request, std::vector<std::byte>& body,
              const std::atomic<bool>& ending);

private:
  class Handle;
  std::unique_ptr<Handle> take();
  void give_back(std::unique_ptr<Handle> handle);

  std::string authorities_; ///< a file; empty: the system's
  std::mutex mutex_;
  std::vector<std::unique_ptr<Handle>> idle_;
};

} // namespace troupe
