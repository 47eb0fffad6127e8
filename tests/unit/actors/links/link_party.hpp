#pragma once

#include "actors/links/link_node.hpp"
#include "tests/unit/actors/job_certificates.hpp"

#include <boost/test/unit_test.hpp>

#include <cstdlib>
#include <filesystem>
#include <future>
#include <map>
#include <thread>

namespace troupe::test {

using namespace std::chrono_literals;

using Clock = IoLoop::Clock;

inline constexpr auto patience = 20s;

inline size_t entries(const char* folder) {
  auto list = std::filesystem::directory_iterator{folder};
  return static_cast<size_t>(std::distance(begin(list), end(list)));
}

template <class Condition>
bool soon(Condition condition) {
  const auto deadline = Clock::now() + patience;
  while (!condition()) {
    if (Clock::now() > deadline)
      return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

/// Descriptors and threads, counted before and after.
struct NothingLeft {
  /// The thread sanitizer makes a thread of its own with the first one.
  NothingLeft() {
    std::thread{[] {}}.join();
    descriptors = entries("/proc/self/fd");
    threads = entries("/proc/self/task");
  }

  size_t descriptors = 0;
  size_t threads = 0;

  bool check() const {
    return soon([this] {
      return entries("/proc/self/fd") == descriptors
             && entries("/proc/self/task") == threads;
    });
  }
};

inline LinkOptions
options(LinkChoice link = LinkChoice::automatic,
        LinkEncryption encryption = LinkEncryption::automatic,
        const Credentials& credentials = job()) {
  LinkOptions result;
  result.tls = std::make_shared<TlsContext>(credentials);
  result.link = link;
  result.encryption = encryption;
  return result;
}

/// The same job's, as another worker.
inline LinkOptions as(LinkOptions with, uint32_t index) {
  if (with.tls)
    with.tls = std::make_shared<TlsContext>(
      load_credentials(with.tls->credentials().source, worker(index)));
  return with;
}

/// Some processes' nodes in one process, and the group they form: each is the
/// worker of its place.
struct Party {
  explicit Party(size_t members, const LinkOptions& with = options()) {
    for (size_t i = 0; i < members; ++i)
      add(with);
  }

  void add(const LinkOptions& with) {
    nodes.push_back(std::make_unique<LinkNode>(
      as(with, static_cast<uint32_t>(nodes.size()))));
  }

  GroupRequest request(uint32_t rank) const {
    GroupRequest result;
    result.fence = {7, 1, 3};
    result.group = "gradients";
    result.rank = rank;
    for (const auto& node : nodes)
      result.members.push_back(
        {node->endpoint(), "worker:" + std::to_string(result.members.size())});
    result.deadline = Clock::now() + patience;
    return result;
  }

  std::future<GroupOutcome> ask(GroupRequest request) {
    auto done = std::make_shared<std::promise<GroupOutcome>>();
    nodes[request.rank]->form_group(std::move(request),
                                    [done](GroupOutcome outcome) {
                                      done->set_value(std::move(outcome));
                                    });
    return done->get_future();
  }

  std::vector<GroupOutcome> form() {
    std::vector<std::future<GroupOutcome>> futures;
    for (uint32_t rank = 0; rank < nodes.size(); ++rank)
      futures.push_back(ask(request(rank)));
    std::vector<GroupOutcome> result;
    for (auto& future : futures)
      result.push_back(future.get());
    return result;
  }

  std::vector<std::unique_ptr<LinkNode>> nodes;
};

inline void send_all(LinkSocket& socket, std::string text) {
  while (!text.empty()) {
    iovec piece{text.data(), text.size()};
    auto sent = socket.send({&piece, 1});
    BOOST_REQUIRE(!sent.down);
    text.erase(0, sent.bytes);
  }
}

inline std::string receive(LinkSocket& socket, size_t size) {
  std::string text(size, '\0');
  size_t have = 0;
  BOOST_REQUIRE(soon([&] {
    auto got = socket.receive(text.data() + have, size - have);
    BOOST_REQUIRE(!got.down);
    have += got.bytes;
    return have == size;
  }));
  return text;
}

} // namespace troupe::test
