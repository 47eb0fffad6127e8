#pragma once

#include "actors/sockets/descriptor.hpp"
#include "actors/sockets/io_loop.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace troupe {

/// Watches the connections to a group's members for their end, or that of
/// their cables (cable.hpp), without reading from them. On the loop's thread,
/// but for close().
class GroupWatch : public std::enable_shared_from_this<GroupWatch> {
public:
  using OnDown = std::function<void(uint32_t rank)>;

  GroupWatch(std::shared_ptr<IoLoop> loop, size_t members,
             std::chrono::milliseconds patience);

  /// Takes a connection, or a duplicate of one, and watches it; calls the
  /// handler once when the peer has ended it.
  void add(uint32_t rank, Descriptor connection);
  /// Sets who is called; null: ends are kept for later.
  void tell(OnDown on_down);
  /// No call of the handler once this has returned; from any thread, the
  /// handler included. Releases the connections, soon.
  void close();

private:
  struct Peer {
    Descriptor connection;
    uint64_t watch = 0;
    bool down = false;
    bool told = false;
  };

  void down(uint32_t rank);
  void look_at_cables();
  void tell_all();

  std::shared_ptr<IoLoop> loop_;
  std::vector<Peer> peers_;
  const std::chrono::milliseconds patience_;
  uint64_t timer_ = 0;
  std::recursive_mutex mutex_; ///< held while the handler runs
  OnDown on_down_;
  bool closed_ = false;
};

} // namespace troupe
