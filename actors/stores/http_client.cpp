#include "actors/stores/http_client.hpp"

#include "kernels/base/steady_clock.hpp"
#include "kernels/files/shown_text.hpp"

#include <curl/curl.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <new>
#include <utility>

namespace troupe {

namespace {

using Clock = SteadyClock;

constexpr size_t max_error_body = size_t{64} << 10;
constexpr size_t max_idle = 64;
constexpr size_t longest_head = size_t{256} << 10;
constexpr long connect_ms = 10'000;
constexpr long slow_bytes_per_s = 1024;

/// What the callbacks of one request work with.
struct Transfer {
  const HttpRequest& request;
  const std::atomic<bool>& ending;
  std::vector<std::byte>& body;
  HttpTry result;
  uint64_t taken = 0;
  size_t head_bytes = 0;
  bool unwanted = false; ///< the body is not what was asked for: it is not read
  curl_off_t come = 0;   ///< bytes, as the library counts them
  Clock::time_point moved = Clock::now(); ///< when more of them came
  std::chrono::milliseconds stall{0};     ///< may bring nothing for so long
  bool stalled = false;
};

size_t take_head(char* data, size_t size, size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const auto bytes = size * count;
  transfer.head_bytes += bytes;
  if (transfer.head_bytes > longest_head)
    return 0;
  take_header({data, bytes}, transfer.result.answer);
  return bytes;
}

size_t take_body(char* data, size_t size, size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const auto bytes = size * count;
  const auto status = transfer.result.answer.status;
  if (status >= 300) {
    auto& text = transfer.result.error_body;
    text.append(data, std::min(bytes, max_error_body - text.size()));
    return bytes;
  }
  if (status == 200 && transfer.request.wants_part) {
    transfer.unwanted = true;
    return 0;
  }
  if (bytes > transfer.request.max_bytes - transfer.taken) {
    transfer.result.over = true;
    return 0;
  }
  const auto* first = reinterpret_cast<const std::byte*>(data);
  transfer.body.insert(transfer.body.end(), first, first + bytes);
  transfer.taken += bytes;
  return bytes;
}

/// Ends a transfer that brings nothing, in time for another connection; the
/// library's own measure of speed is a mean over several seconds.
int keep_on(void* user, curl_off_t, curl_off_t come, curl_off_t, curl_off_t) {
  auto& transfer = *static_cast<Transfer*>(user);
  const auto now = Clock::now();
  if (come != transfer.come) {
    transfer.come = come;
    transfer.moved = now;
  }
  transfer.stalled = now - transfer.moved > transfer.stall;
  return transfer.ending || transfer.stalled ? 1 : 0;
}

/// "self-signed certificate": the reason in the library's own words, one line.
std::string tls_reason(CURLcode code, const char* detail) {
  const std::string text = *detail != '\0' ? detail : curl_easy_strerror(code);
  return shown_text(text.substr(0, 200));
}

/// How a transfer ended that the library could not complete.
void judge_transport(CURLcode code, const char* detail, Transfer& transfer) {
  auto& result = transfer.result;
  const auto say = [&](FetchEnd end, std::string why) {
    result.end = end;
    result.why = std::move(why);
  };
  if (transfer.ending)
    return say(FetchEnd::ended, "was given up, as the process ends");
  if (transfer.stalled)
    return say(FetchEnd::stalled, "is too slow");
  switch (code) {
    case CURLE_OK:
      return;
    case CURLE_WRITE_ERROR: // said in take_body or take_head
      if (result.over)
        return say(FetchEnd::odd, "sends more than it was asked for");
      if (!transfer.unwanted)
        return say(FetchEnd::odd, "sends a head of an answer that is too long");
      return;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
      return say(FetchEnd::unresolved, "its host's name has no address");
    case CURLE_COULDNT_CONNECT:
      return say(FetchEnd::unreachable, "nobody answers there");
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_INVALIDCERTSTATUS:
      return say(FetchEnd::untrusted, "its certificate is not trusted ("
                                        + tls_reason(code, detail) + ")");
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_SSL_CIPHER:
    case CURLE_USE_SSL_FAILED:
      return say(FetchEnd::untrusted, "no TLS connection can be made ("
                                        + tls_reason(code, detail) + ")");
    case CURLE_OPERATION_TIMEDOUT:
      return say(FetchEnd::stalled, "is too slow");
    case CURLE_PARTIAL_FILE:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_HTTP2_STREAM:
    case CURLE_HTTP2:
      return say(FetchEnd::cut, "ended the connection too early");
    case CURLE_TOO_MANY_REDIRECTS:
      return say(FetchEnd::odd, "sends from one address to the next");
    case CURLE_UNSUPPORTED_PROTOCOL:
      return say(FetchEnd::odd, "sends to an address that is not http or "
                                "https");
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_BAD_CONTENT_ENCODING:
      return say(FetchEnd::odd, "does not answer as an HTTP server does");
    case CURLE_URL_MALFORMAT:
      return say(FetchEnd::odd, "is no URL that can be fetched");
    case CURLE_OUT_OF_MEMORY:
      throw std::bad_alloc{};
    default:
      return say(FetchEnd::odd, std::string{"cannot be fetched ("}
                                  + curl_easy_strerror(code) + ")");
  }
}

std::string own_authorities() {
  for (const char* name : {"CURL_CA_BUNDLE", "AWS_CA_BUNDLE", "SSL_CERT_FILE"})
    if (const char* file = std::getenv(name); file != nullptr && *file != '\0')
      return file;
  return {};
}

} // namespace

/// A connection that may be open, with the library's state of it.
class HttpClient::Handle {
public:
  Handle() : handle_(curl_easy_init()) {
    if (handle_ == nullptr)
      throw std::bad_alloc{};
  }
  ~Handle() { curl_easy_cleanup(handle_); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  HttpTry get(const HttpRequest& request, const std::string& authorities,
              std::vector<std::byte>& body, const std::atomic<bool>& ending) {
    Transfer transfer{request, ending, body, {}};
    std::array<char, CURL_ERROR_SIZE> detail{};
    curl_easy_reset(handle_); // keeps its connections
    const auto patience =
      std::max<long>(1, static_cast<long>(request.patience.count()));
    set(CURLOPT_URL, request.url.c_str());
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_PATH_AS_IS, 1L);
    set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
    set(CURLOPT_FOLLOWLOCATION, request.follow ? 1L : 0L);
    set(CURLOPT_MAXREDIRS, 5L);
    set(CURLOPT_USERAGENT, "troupe");
    set(CURLOPT_TIMEOUT_MS, patience);
    set(CURLOPT_CONNECTTIMEOUT_MS, std::min(patience, connect_ms));
    set(CURLOPT_LOW_SPEED_LIMIT, slow_bytes_per_s);
    set(CURLOPT_LOW_SPEED_TIME, 20L);
    transfer.stall =
      std::chrono::milliseconds{std::clamp(patience / 4, 1'000L, 15'000L)};
    set(CURLOPT_ERRORBUFFER, detail.data());
    set(CURLOPT_HEADERFUNCTION, take_head);
    set(CURLOPT_HEADERDATA, &transfer);
    set(CURLOPT_WRITEFUNCTION, take_body);
    set(CURLOPT_WRITEDATA, &transfer);
    set(CURLOPT_NOPROGRESS, 0L);
    set(CURLOPT_XFERINFOFUNCTION, keep_on);
    set(CURLOPT_XFERINFODATA, &transfer);
    if (!authorities.empty())
      set(CURLOPT_CAINFO, authorities.c_str());
    Fields fields;
    for (const auto& field : request.fields)
      fields.add(field);
    set(CURLOPT_HTTPHEADER, fields.list);
    judge_transport(curl_easy_perform(handle_), detail.data(), transfer);
    curl_easy_setopt(handle_, CURLOPT_ERRORBUFFER, nullptr);
    return std::move(transfer.result);
  }

private:
  struct Fields {
    curl_slist* list = nullptr;
    Fields() = default;
    ~Fields() { curl_slist_free_all(list); }
    Fields(const Fields&) = delete;
    Fields& operator=(const Fields&) = delete;
    void add(const std::string& field) {
      auto* longer = curl_slist_append(list, field.c_str());
      if (longer == nullptr)
        throw std::bad_alloc{};
      list = longer;
    }
  };

  template <class Value>
  void set(CURLoption option, Value value) {
    if (curl_easy_setopt(handle_, option, value) == CURLE_OUT_OF_MEMORY)
      throw std::bad_alloc{};
  }

  CURL* handle_;
};

HttpClient::HttpClient() : authorities_(own_authorities()) {
  if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
    throw std::bad_alloc{};
}

HttpClient::~HttpClient() {
  idle_.clear();
  curl_global_cleanup();
}

std::unique_ptr<HttpClient::Handle> HttpClient::take() {
  {
    const std::lock_guard guard{mutex_};
    if (!idle_.empty()) {
      auto handle = std::move(idle_.back());
      idle_.pop_back();
      return handle;
    }
  }
  return std::make_unique<Handle>();
}

void HttpClient::give_back(std::unique_ptr<Handle> handle) {
  const std::lock_guard guard{mutex_};
  if (idle_.size() < max_idle)
    idle_.push_back(std::move(handle));
}

HttpTry HttpClient::get(const HttpRequest& request,
                        std::vector<std::byte>& body,
                        const std::atomic<bool>& ending) {
  auto handle = take();
  auto result = handle->get(request, authorities_, body, ending);
  give_back(std::move(handle));
  return result;
}

} // namespace troupe
