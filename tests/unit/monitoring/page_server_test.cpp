#include "monitoring/http_request.hpp"
#include "monitoring/metrics.hpp"
#include "monitoring/page_server.hpp"

#include <arpa/inet.h>
#include <boost/test/unit_test.hpp>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(page_server)

namespace {

/// A connection to the server at 127.0.0.1; reading gives up after 5 s.
class Visitor {
public:
  explicit Visitor(const std::string& address)
    : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    timeval deadline{5, 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &deadline, sizeof deadline);
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_port = htons(
      static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    // No check of Boost's: those are for one thread.
    if (connect(socket_, reinterpret_cast<sockaddr*>(&where), sizeof where)
        != 0)
      throw std::system_error(errno, std::generic_category(), address);
  }
  Visitor(Visitor&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)) {}
  Visitor& operator=(Visitor&& other) noexcept {
    std::swap(socket_, other.socket_);
    return *this;
  }
  ~Visitor() {
    if (socket_ >= 0)
      close(socket_);
  }

  bool say(const std::string& text) const {
    return send(socket_, text.data(), text.size(), MSG_NOSIGNAL)
           == static_cast<ssize_t>(text.size());
  }
  /// All that comes before the other side's end; "late" where none comes.
  std::string hear() const {
    std::string out;
    char part[4096];
    for (;;) {
      const auto got = recv(socket_, part, sizeof part, 0);
      if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return "late";
      if (got <= 0)
        return out;
      out.append(part, static_cast<size_t>(got));
    }
  }

private:
  int socket_;
};

std::string get(const std::string& address, const std::string& target) {
  Visitor visitor{address};
  visitor.say("GET " + target + " HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
  return visitor.hear();
}

using Kind = HttpVerdict::Kind;

const std::vector<std::string> pages{"/", "/metrics"};

Kind kind_of(const std::string& text) {
  return judge_request(text, pages).kind;
}

} // namespace

BOOST_AUTO_TEST_CASE(a_request_is_judged_once_its_headers_are_there) {
  BOOST_TEST((kind_of("") == Kind::wait));
  BOOST_TEST((kind_of("GET /metrics HTTP/1.1\r\nHost: x\r\n") == Kind::wait));
  for (const char* target : {"/metrics", "/metrics?name=a&b"})
    BOOST_TEST((kind_of("GET " + std::string{target} + " HTTP/1.0\r\n\r\n")
                == Kind::answer));
  BOOST_TEST(!judge_request("HEAD /metrics HTTP/1.1\r\n\r\n", pages).body);
  const auto verdict = judge_request("GET /?after=2.7&b HTTP/1.1\r\n\r\n",
                                     pages);
  BOOST_TEST(verdict.path == "/");
  BOOST_TEST(verdict.query == "after=2.7&b");
}

BOOST_AUTO_TEST_CASE(other_requests_are_refused_with_a_status) {
  const auto status = [](const std::string& text) {
    return std::string{judge_request(text, pages).status}.substr(0, 3);
  };
  BOOST_TEST(status("GET /other HTTP/1.1\r\n\r\n") == "404");
  BOOST_TEST(status("GET /metricsx HTTP/1.1\r\n\r\n") == "404");
  BOOST_TEST(status("POST /metrics HTTP/1.1\r\n\r\n") == "405");
  for (const char* text : {"\r\n\r\n", "GET\r\n\r\n", "GET /metrics\r\n\r\n",
                           "GET /metrics SMTP\r\n\r\n", "\1\2 \3\r\n\r\n"})
    BOOST_TEST(status(text) == "400");
  BOOST_TEST(status("GET /metrics HTTP/1.1\r\n" + std::string(9000, 'x'))
             == "431");
}

BOOST_AUTO_TEST_CASE(without_a_token_a_strangers_name_reads_metrics_alone) {
  const auto status = [](const std::string& path, const std::string& host,
                         std::string_view token = {}) {
    return std::string{judge_request("GET " + path
                                       + " HTTP/1.1\r\nHost: " + host
                                       + "\r\nAuthorization: Bearer s\r\n\r\n",
                                     pages, token)
                         .status}
      .substr(0, 3);
  };
  for (const char* host : {"127.0.0.1:9464", "localhost", "LocalHost:9464",
                           "[::1]:9464", "10.0.0.7"})
    BOOST_TEST(status("/", host) == "200");
  for (const char* host : {"a.example:9464", "localhost.example", "10.example",
                           "127.0.0.1.example"}) {
    BOOST_TEST(status("/", host) == "421");
    BOOST_TEST(status("/metrics", host) == "200");
    BOOST_TEST(status("/", host, "s") == "200");
  }
}

BOOST_AUTO_TEST_CASE(where_there_is_a_token_it_is_asked_for_first) {
  const auto status = [](const std::string& headers) {
    return std::string{
      judge_request("GET /metrics HTTP/1.1\r\n" + headers + "\r\n", pages,
                    "s3cret")
        .status}
      .substr(0, 3);
  };
  for (const char* headers :
       {"Authorization: Bearer s3cret\r\n",
        "Host: x\r\nauthorization:bearer  s3cret \r\nAccept: */*\r\n",
        // "anybody:s3cret" and ":s3cret", as a browser says them
        "Authorization: Basic YW55Ym9keTpzM2NyZXQ=\r\n",
        "authorization: basic OnMzY3JldA==\r\n"})
    BOOST_TEST(status(headers) == "200");
  for (const char* headers :
       {"", "Authorization: Bearer s3cre\r\n",
        "Authorization: Bearer s3cret0\r\n", "Authorization: s3cret\r\n",
        "Authorization: Bearer\r\n", "Authorization:\r\n",
        "Authorization: Basic s3cret\r\n",
        // "s3cret", "s3cret:" and "anybody:s3cre"
        "Authorization: Basic czNjcmV0\r\n",
        "Authorization: Basic czNjcmV0Og==\r\n",
        "Authorization: Basic YW55Ym9keTpzM2NyZQ==\r\n",
        "X-Authorization: Bearer s3cret\r\n",
        "Authorization: Bearer no\r\nAuthorization: Bearer s3cret\r\n"})
    BOOST_TEST(status(headers) == "401");
}

BOOST_AUTO_TEST_CASE(who_is_refused_is_told_why_in_one_line) {
  MetricExporter exporter{"127.0.0.1:0"};
  exporter.serve({"/twice", [](std::string_view query) {
                    return WebAnswer{"Content-Type: text/plain\r\n",
                                     std::string{query} + std::string{query}};
                  }});
  exporter.serve({"/broken", [](std::string_view) -> WebAnswer {
                    throw std::runtime_error("not for others to read");
                  }});
  const auto body_of = [&](const std::string& target) {
    const auto answer = get(exporter.address(), target);
    return answer.substr(answer.find("\r\n\r\n") + 4);
  };
  BOOST_TEST(body_of("/twice?ab") == "abab");
  BOOST_TEST(body_of("/other")
             == "404 Not Found: what is here: /metrics, /twice and /broken\n");
  BOOST_TEST(body_of("/broken") == "500 Internal Server Error\n");
  Visitor writer{exporter.address()};
  writer.say("POST /twice HTTP/1.1\r\n\r\n");
  const auto answer = writer.hear();
  BOOST_TEST(answer.starts_with("HTTP/1.1 405 "));
  BOOST_TEST(answer.find("\r\nAllow: GET, HEAD\r\n") != answer.npos);
}

// 64 clients that send a byte now and then held both threads of the web server
// that was here, each for as long as its deadline: a scrape took half a minute.
BOOST_AUTO_TEST_CASE(clients_that_drip_keep_no_scrape_waiting) {
  MetricExporter exporter{"127.0.0.1:0"};
  std::atomic<bool> over{false};
  std::thread dripping{[&] {
    std::vector<Visitor> visitors;
    for (int i = 0; i < 64; ++i)
      visitors.emplace_back(exporter.address());
    while (!over) {
      for (auto& visitor : visitors)
        if (!visitor.say("G")) // dropped: comes again
          visitor = Visitor{exporter.address()};
      poll(nullptr, 0, 50);
    }
  }};
  for (int i = 0; i < 4; ++i)
    BOOST_TEST(get(exporter.address(), "/metrics").starts_with("HTTP/1.1 200"));
  over = true;
  dripping.join();
}

BOOST_AUTO_TEST_CASE(five_hundred_silent_connections_keep_no_scrape_waiting) {
  MetricExporter exporter{"127.0.0.1:0"};
  std::vector<Visitor> silent;
  for (int i = 0; i < 500; ++i)
    silent.emplace_back(exporter.address());
  BOOST_TEST(get(exporter.address(), "/metrics").starts_with("HTTP/1.1 200"));
}

BOOST_AUTO_TEST_CASE(who_says_half_a_request_is_let_go) {
  MetricExporter exporter{"127.0.0.1:0"};
  Visitor visitor{exporter.address()};
  visitor.say("GET /metr");
  BOOST_TEST(visitor.hear() == "");
}

BOOST_AUTO_TEST_CASE(an_answer_arrives_whole_however_slowly_it_is_read) {
  MetricExporter exporter{"127.0.0.1:0"};
  std::vector<MetricSample> samples(20'000);
  for (size_t i = 0; i < samples.size(); ++i) {
    samples[i].name = "a_metric_with_a_long_name_" + std::to_string(i);
    samples[i].help = "It is there to fill the buffers of a socket.";
  }
  exporter.publish("worker:0", samples);
  Visitor slow{exporter.address()};
  slow.say("GET /metrics HTTP/1.1\r\n\r\nmore than was asked for");
  // Others are answered while that one does not read.
  BOOST_TEST(get(exporter.address(), "/metrics").starts_with("HTTP/1.1 200"));
  const auto answer = slow.hear();
  const auto at = answer.find("Content-Length: ");
  const auto body = answer.find("\r\n\r\n");
  BOOST_REQUIRE((at != answer.npos && body != answer.npos));
  BOOST_TEST(std::stoul(answer.substr(at + 16)) == answer.size() - body - 4);
  BOOST_TEST(answer.size() > size_t{2} << 20);
}

BOOST_AUTO_TEST_SUITE_END()
