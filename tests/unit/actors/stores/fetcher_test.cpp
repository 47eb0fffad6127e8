#include "actors/sockets/descriptor.hpp"
#include "actors/stores/fetcher.hpp"
#include "tests/unit/kernels/data_files.hpp"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <thread>

using namespace troupe;
using namespace troupe::testing;

BOOST_AUTO_TEST_SUITE(fetcher)

namespace {

constexpr std::chrono::seconds patience{60};

/// Answers each connection's one request with what `answer` makes of its head.
class Server {
public:
  using Answer = std::function<std::string(const std::string& head)>;

  explicit Server(Answer answer) : answer_(std::move(answer)) {
    socket_.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof at;
    BOOST_REQUIRE(
      ::bind(socket_.get(), reinterpret_cast<sockaddr*>(&at), sizeof at) == 0);
    BOOST_REQUIRE(::listen(socket_.get(), 16) == 0);
    BOOST_REQUIRE(
      ::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&at), &length)
      == 0);
    place_ = "http://127.0.0.1:" + std::to_string(ntohs(at.sin_port));
    thread_ = std::jthread{[this](const std::stop_token& stop) { run(stop); }};
  }

  const std::string& place() const { return place_; }

private:
  void run(const std::stop_token& stop) {
    std::vector<std::jthread> answering;
    while (!stop.stop_requested()) {
      pollfd waiting{socket_.get(), POLLIN, 0};
      if (::poll(&waiting, 1, 20) != 1)
        continue;
      answering.emplace_back([this,
                              one = ::accept(socket_.get(), nullptr, nullptr)] {
        const Descriptor connection{one};
        std::string head;
        for (char c; head.find("\r\n\r\n") == head.npos
                     && ::read(connection.get(), &c, 1) == 1;)
          head += c;
        const auto text = answer_(head);
        // Checks are for one thread; a fetch misses what is not written.
        [[maybe_unused]] const auto written = ::write(connection.get(),
                                                      text.data(), text.size());
      });
    }
  }

  Answer answer_;
  Descriptor socket_;
  std::string place_;
  std::jthread thread_;
};

std::string answer_of(const std::string& status, const std::string& fields,
                      const std::string& body) {
  return "HTTP/1.1 " + status + "\r\nConnection: close\r\n" + fields
         + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

} // namespace

// Symptom: a run over many fetches ended with "is refused (403 ExpiredToken)"
// when a session's keys were replaced, though the new ones were there: of the
// fetches that were refused at once only the first one tried again, since keys
// read anew were compared with those that it had read, not with its own.
BOOST_AUTO_TEST_CASE(all_fetches_go_on_with_keys_that_were_replaced) {
  constexpr int fetches = 3;
  Folder folder;
  const auto write_keys = [&](const std::string& id) {
    folder.put("credentials", "[default]\naws_access_key_id = " + id
                                + "\naws_secret_access_key = hush\n");
  };
  write_keys("OLD");
  std::mutex mutex;
  std::condition_variable all_there;
  int refused = 0;
  const Server server{[&](const std::string& head) {
    if (head.find("Credential=OLD/") == head.npos)
      return answer_of("206 Partial Content",
                       "Content-Range: bytes 0-3/10\r\nETag: \"x\"\r\n",
                       "data");
    std::unique_lock lock{mutex};
    if (++refused == fetches) {
      write_keys("NEW");
      all_there.notify_all();
    }
    all_there.wait_for(lock, patience, [&] { return refused >= fetches; });
    return answer_of("403 Forbidden", "",
                     "<Error><Code>ExpiredToken</Code></Error>");
  }};
  const std::map<std::string, std::string> variables{
    {"AWS_SHARED_CREDENTIALS_FILE", (folder.path / "credentials").string()},
    {"AWS_ENDPOINT_URL", server.place()},
    {"AWS_REGION", "eu-test-1"}};
  Fetcher fetcher{{}, [&](const char* name) {
                    const auto at = variables.find(name);
                    return at == variables.end() ? std::string{} : at->second;
                  }};
  std::vector<std::future<std::vector<std::byte>>> parts;
  for (int i = 0; i < fetches; ++i)
    parts.push_back(std::async(std::launch::async, [&] {
      return fetcher.range("s3://bucket/key", {10, "\"x\""}, 0, 4);
    }));
  for (auto& part : parts)
    BOOST_CHECK_NO_THROW(BOOST_TEST(part.get().size() == 4u));
  BOOST_TEST(refused == fetches);
}

BOOST_AUTO_TEST_SUITE_END()
