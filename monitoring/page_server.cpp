#include "monitoring/page_server.hpp"

#include "monitoring/http_request.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <list>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace troupe {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t max_clients = 256;
constexpr int accepts_per_turn = 32;
constexpr size_t part_bytes = 4096;
constexpr auto request_patience = std::chrono::seconds{2};
constexpr auto answer_patience = std::chrono::seconds{10};
constexpr auto farewell = std::chrono::seconds{1};
constexpr auto breath = std::chrono::milliseconds{100};

/// Processor time of this thread.
std::chrono::nanoseconds thread_time() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds{time.tv_sec}
         + std::chrono::nanoseconds{time.tv_nsec};
}

/// A connection: listens to a request, speaks an answer, and then waits for the
/// other side's end, without which the answer could be lost on its way.
struct Client {
  enum class State { listening, speaking, leaving, gone };

  int socket = -1;
  std::unique_ptr<PageStream> stream;
  State state = State::listening;
  Clock::time_point deadline;
  std::string received;
  std::string answer;
  size_t said = 0;
  bool answered = false; ///< with the page

  short events() const {
    return state == State::leaving ? short{POLLIN} : stream->awaits();
  }
};

} // namespace

struct PageServer::Impl {
  int listener;
  int wake;
  std::mutex mutex;
  std::vector<WebPage> pages; // under the mutex
  PageGuard guard;
  std::list<Client> clients; // in the order in which they came
  Clock::time_point accept_again{};
  std::chrono::nanoseconds charged{};     // the thread's time, so far
  std::chrono::nanoseconds for_readers{}; // since then
  std::thread thread;

  Impl(int listening, WebPage page, PageGuard who)
    : listener(listening),
      wake(::eventfd(0, EFD_CLOEXEC)),
      guard(std::move(who)) {
    if (wake < 0)
      throw std::runtime_error(std::strerror(errno));
    pages.push_back(std::move(page));
    thread = std::thread{[this] { run(); }};
  }

  ~Impl() {
    const uint64_t one = 1;
    while (::write(wake, &one, sizeof one) < 0 && errno == EINTR) {
    }
    thread.join();
    for (const auto& client : clients)
      ::close(client.socket);
    ::close(wake);
    ::close(listener);
  }

  // --- one thread ------------------------------------------------------------

  void run() {
    std::vector<pollfd> watched;
    for (;;) {
      const auto now = Clock::now();
      watched = {{wake, POLLIN, 0},
                 {listener, short(now < accept_again ? 0 : POLLIN), 0}};
      for (const auto& client : clients)
        watched.push_back({client.socket, client.events(), 0});
      ::poll(watched.data(), watched.size(), patience(now));
      if (watched[0].revents != 0)
        return;
      size_t at = 2;
      for (auto& client : clients) // those that were watched
        if (watched[at++].revents != 0)
          go_on(client);
      end_some(Clock::now());
      if (watched[1].revents != 0)
        accept_some();
      charge();
    }
  }

  /// Until the first deadline, in milliseconds; -1: for ever.
  int patience(Clock::time_point now) const {
    auto first = Clock::time_point::max();
    if (now < accept_again)
      first = accept_again;
    for (const auto& client : clients)
      first = std::min(first, client.deadline);
    if (first == Clock::time_point::max())
      return -1;
    const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(first - now).count();
    return static_cast<int>(std::clamp<int64_t>(left, 0, 60'000));
  }

  void end_some(Clock::time_point now) {
    std::erase_if(clients, [&](const Client& client) {
      const bool over = client.state == Client::State::gone
                        || client.deadline <= now;
      if (over)
        ::close(client.socket);
      return over;
    });
  }

  /// All that the thread does is for strangers, but for what it says to those
  /// who get the page.
  void charge() {
    if (!guard.rests_until)
      return;
    const auto now = thread_time();
    const auto cost = now - charged - for_readers;
    charged = now;
    for_readers = {};
    if (const auto until = guard.rests_until(cost))
      accept_again = std::max(accept_again, *until);
  }

  void accept_some() {
    for (int i = 0; i < accepts_per_turn; ++i) {
      const int made = ::accept4(listener, nullptr, nullptr,
                                 SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (made >= 0) {
        auto stream = guard.open(made);
        if (!stream) {
          ::close(made);
          continue;
        }
        if (clients.size() >= max_clients)
          drop_oldest();
        clients.push_back({made,
                           std::move(stream),
                           Client::State::listening,
                           Clock::now() + request_patience,
                           {},
                           {},
                           0});
        continue;
      }
      const bool short_of_room = errno == EMFILE || errno == ENFILE
                                 || errno == ENOBUFS || errno == ENOMEM;
      if (short_of_room && clients.empty())
        accept_again = Clock::now() + breath; // it would call again at once
      else if (short_of_room)
        drop_oldest();
      return;
    }
  }

  /// Of those that have not been told anything, if there are any.
  void drop_oldest() {
    auto victim = std::ranges::find_if(clients, [](const Client& client) {
      return client.state != Client::State::speaking;
    });
    if (victim == clients.end())
      victim = clients.begin();
    ::close(victim->socket);
    clients.erase(victim);
  }

  // --- one connection --------------------------------------------------------

  void go_on(Client& client) {
    const auto began = thread_time();
    take_turn(client);
    if (client.answered)
      for_readers += thread_time() - began;
  }

  void take_turn(Client& client) {
    if (client.state == Client::State::speaking)
      speak(client);
    else if (client.state == Client::State::leaving)
      leave(client);
    else
      listen(client);
  }

  /// Has had its answer: what it still says is passed over.
  static void leave(Client& client) {
    char part[part_bytes];
    const auto got = ::recv(client.socket, part, sizeof part, 0);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
      client.state = Client::State::gone;
  }

  std::vector<std::string> paths() {
    const std::lock_guard lock{mutex};
    std::vector<std::string> out;
    for (const auto& page : pages)
      out.push_back(page.path);
    return out;
  }

  void listen(Client& client) {
    HttpVerdict verdict;
    const auto known = paths();
    // All that there is: a cipher may hold more than the socket shows.
    while (verdict.kind == HttpVerdict::Kind::wait) {
      char part[part_bytes];
      const auto got = client.stream->read(part, sizeof part);
      if (got == PageStream::not_now)
        return;
      if (got == 0) {
        client.state = Client::State::gone;
        return;
      }
      client.received.append(part, static_cast<size_t>(got));
      verdict = judge_request(client.received, known, guard.token);
    }
    client.answered = verdict.kind == HttpVerdict::Kind::answer;
    client.answer = answer_to(verdict);
    client.received = {};
    client.state = Client::State::speaking;
    client.deadline = Clock::now() + answer_patience;
    speak(client);
  }

  WebAnswer made(const HttpVerdict& verdict) {
    std::function<WebAnswer(std::string_view)> make;
    {
      const std::lock_guard lock{mutex};
      make = std::ranges::find(pages, verdict.path, &WebPage::path)->make;
    }
    return make(verdict.query);
  }

  std::string answer_to(const HttpVerdict& verdict) {
    if (verdict.kind == HttpVerdict::Kind::refuse)
      return http_refusal(verdict);
    try {
      return http_answer(verdict.status, made(verdict), verdict.body);
    } catch (const std::exception&) {
      HttpVerdict failure;
      failure.status = "500 Internal Server Error";
      return http_refusal(failure);
    }
  }

  static void speak(Client& client) {
    while (client.said < client.answer.size()) {
      const auto sent = client.stream->write(
        client.answer.data() + client.said, client.answer.size() - client.said);
      if (sent == PageStream::not_now)
        return;
      if (sent == 0) {
        client.state = Client::State::gone;
        return;
      }
      client.said += static_cast<size_t>(sent);
    }
    client.stream->end();
    client.answer = {};
    client.state = Client::State::leaving;
    client.deadline = Clock::now() + farewell;
  }
};

PageServer::PageServer(int listener, WebPage page, PageGuard guard)
  : impl_(std::make_unique<Impl>(listener, std::move(page), std::move(guard))) {
}

PageServer::~PageServer() = default;

void PageServer::add(WebPage page) {
  const std::lock_guard lock{impl_->mutex};
  impl_->pages.push_back(std::move(page));
}

} // namespace troupe
