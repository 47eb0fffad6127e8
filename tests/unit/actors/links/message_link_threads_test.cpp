#include "tests/unit/actors/links/link_pair.hpp"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <random>
#include <thread>

using namespace troupe;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(message_link_threads)

namespace {

constexpr auto patience = 60s;
constexpr uint32_t messages_each = 1000;
constexpr uint64_t max_values = 9'000;
constexpr size_t max_kept = 2; ///< views, while the next message is awaited
/// What is kept and what is awaited fit in half of it: only then is there
/// always credit for the next message (link_terms()).
constexpr uint64_t window = 2 * (max_kept + 1)
                            * (frame_header_bytes + max_values * sizeof(float));
const Fence fence{1, 2, 3};

/// What the n-th of a sender's messages is, so that the receiver can tell.
LinkMessage nth(uint32_t sender, uint32_t n) {
  std::mt19937 random{sender * 100'003 + n};
  const auto size = random() % 8 == 0 ? 0 : random() % max_values;
  switch (random() % 4) {
    case 0:
      return Pull{fence, {RoleKind::worker, sender}, n};
    case 1:
      return Pulled{fence, n, sender, numbered(size, n)};
    case 2:
      return Push{fence, n, {n, n + 1}, sender, numbered(size, n)};
    default:
      return LeasePush{fence, n, sender, n, numbered(size, n), 0.25f};
  }
}

uint64_t number_of(const LinkMessage& message) {
  return header_of(message).step;
}

uint32_t sender_of(const LinkMessage& message) {
  if (const auto* pull = std::get_if<Pull>(&message))
    return pull->worker.index;
  return header_of(message).bucket;
}

/// An end whose messages are taken, and let go of, by another thread than the
/// one that drives the link.
struct Threaded {
  explicit Threaded(std::unique_ptr<LinkSocket> socket)
    : link(MessageLink::make(std::move(socket), {"peer", all_kinds(), window},
                             {[this](LinkMessage&& x) { take(std::move(x)); },
                              [this] { woken = true; }})) {}

  void take(LinkMessage&& message) {
    std::lock_guard lock{mutex};
    got.push_back(std::move(message));
    arrived.notify_one();
  }

  /// Waits for the next message.
  LinkMessage next() {
    std::unique_lock lock{mutex};
    if (!arrived.wait_for(lock, patience, [&] { return !got.empty(); }))
      throw std::runtime_error("no message came");
    auto message = std::move(got.front());
    got.pop_front();
    return message;
  }

  /// Checks all that two senders sent; keeps some views for a while.
  void check() {
    std::mt19937 random{5};
    uint64_t expected[2] = {0, 0};
    std::vector<LinkMessage> kept;
    for (uint32_t i = 0; i < 2 * messages_each; ++i) {
      auto message = next();
      const auto sender = sender_of(message) % 2;
      right = right && number_of(message) == expected[sender]
              && same(message, nth(sender_of(message),
                                   static_cast<uint32_t>(expected[sender])));
      ++expected[sender];
      if (random() % 2 == 0 && !std::holds_alternative<Pull>(message))
        kept.push_back(std::move(message));
      if (kept.size() > max_kept)
        kept.clear();
    }
  }

  std::mutex mutex;
  std::condition_variable arrived;
  std::deque<LinkMessage> got;
  std::atomic<bool> woken{false};
  bool right = true;
  std::shared_ptr<MessageLink> link;
};

/// What the links' thread does for both ends.
void drive(Threaded& a, Threaded& b, const std::atomic<bool>& over) {
  while (!over) {
    pollfd ends[2];
    Threaded* of[2] = {&a, &b};
    for (int i = 0; i < 2; ++i) {
      of[i]->woken = false;
      ends[i] = {of[i]->link->descriptor(), POLLIN, 0};
      if (of[i]->link->wants_write())
        ends[i].events |= POLLOUT;
    }
    poll(ends, 2, 1); // what a wake would end early
    for (int i = 0; i < 2; ++i) {
      if ((ends[i].revents & POLLIN) != 0)
        of[i]->link->on_readable();
      if ((ends[i].revents & POLLOUT) != 0)
        of[i]->link->on_writable();
    }
  }
}

} // namespace

BOOST_AUTO_TEST_CASE(
  random_messages_of_four_threads_arrive_whole_and_in_order) {
  auto ends = socket_pair(20'000);
  Threaded a{std::move(ends[0])};
  Threaded b{std::move(ends[1])};
  std::atomic<bool> over{false};
  std::thread driver{[&] { drive(a, b, over); }};
  std::vector<std::thread> senders;
  for (uint32_t sender = 0; sender < 4; ++sender)
    senders.emplace_back([&, sender] {
      for (uint32_t n = 0; n < messages_each; ++n)
        (sender < 2 ? a : b).link->send(nth(sender, n));
    });
  std::string trouble[2];
  std::vector<std::thread> readers;
  readers.reserve(2);
  for (int i = 0; i < 2; ++i)
    readers.emplace_back([&, i] {
      try {
        (i == 0 ? a : b).check();
      } catch (const std::exception& late) {
        trouble[i] = late.what();
      }
    });
  for (auto& thread : senders)
    thread.join();
  for (auto& thread : readers)
    thread.join();
  over = true;
  driver.join();
  for (auto* end : {&a, &b}) {
    BOOST_TEST(end->right);
    BOOST_TEST(end->link->down() == "");
    BOOST_TEST(end->link->counts().queued_bytes == 0u);
  }
  BOOST_TEST(trouble[0] == "");
  BOOST_TEST(trouble[1] == "");
}

BOOST_AUTO_TEST_SUITE_END()
