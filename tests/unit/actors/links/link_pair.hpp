#pragma once

#include "actors/links/message_link.hpp"

#include <boost/test/unit_test.hpp>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstring>
#include <deque>
#include <vector>

namespace troupe {

inline std::array<std::unique_ptr<LinkSocket>, 2> socket_pair(int buffer = 0) {
  int ends[2];
  BOOST_REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
  for (auto end : ends)
    if (buffer > 0)
      setsockopt(end, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
  return {std::make_unique<LinkSocket>(ends[0]),
          std::make_unique<LinkSocket>(ends[1])};
}

inline std::vector<MessageKind> all_kinds() {
  return {MessageKind::pull,        MessageKind::pulled,
          MessageKind::push,        MessageKind::lease_push,
          MessageKind::row_pull,    MessageKind::stage_values,
          MessageKind::rows_wanted, MessageKind::rows_served};
}

/// A link and what it has delivered.
struct LinkEnd {
  explicit LinkEnd(std::unique_ptr<LinkSocket> socket,
                   uint64_t window_bytes = 1 << 20,
                   std::shared_ptr<LinkMemory> memory = nullptr,
                   std::shared_ptr<const PeerMemory> peer_memory = nullptr,
                   SliceRanks ranks = nullptr)
    : link(MessageLink::make(
      std::move(socket),
      {"peer", all_kinds(), window_bytes, std::move(memory),
       std::move(peer_memory), std::move(ranks)},
      {[this](LinkMessage&& x) { got.push_back(std::move(x)); }, [] {}})) {}

  std::deque<LinkMessage> got;
  std::shared_ptr<MessageLink> link;

  /// Does what the socket allows; tells whether something arrived.
  bool turn() {
    const auto before = link->counts().received_bytes;
    link->on_readable();
    if (link->wants_write())
      link->on_writable();
    return link->counts().received_bytes != before;
  }
};

/// What a peer that keeps no rules sends and reads.
struct RawEnd {
  std::unique_ptr<LinkSocket> socket;

  void send(const std::vector<std::byte>& bytes) {
    const iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
    BOOST_REQUIRE(socket->send({&piece, 1}).bytes == bytes.size());
  }
  std::vector<std::byte> receive(size_t most = size_t{1} << 30) {
    std::vector<std::byte> all;
    std::vector<std::byte> some(size_t{1} << 16);
    while (all.size() < most) {
      const auto got =
        socket->receive(some.data(), std::min(some.size(), most - all.size()));
      if (got.bytes == 0)
        break;
      all.insert(all.end(), some.begin(),
                 some.begin() + static_cast<ptrdiff_t>(got.bytes));
    }
    return all;
  }
};

inline void run(LinkEnd& a, LinkEnd& b) {
  for (int idle = 0; idle < 3; ++idle)
    while (static_cast<int>(a.turn()) + static_cast<int>(b.turn()) > 0)
      idle = 0;
}

/// A tensor whose values tell where it comes from.
inline TensorView numbered(size_t count, uint32_t seed) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i)
    values[i] = static_cast<float>((seed * 7919 + i) % 65'521);
  return TensorView::copy(values);
}

inline bool same(const TensorView& a, const TensorView& b) {
  return a.size() == b.size()
         && (a.size() == 0
             || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

inline bool same(const LinkMessage& a, const LinkMessage& b) {
  return header_of(a) == header_of(b) && same(values_of(a), values_of(b));
}

} // namespace troupe
