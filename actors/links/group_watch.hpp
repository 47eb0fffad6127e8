#pragma once

#include "actors/links/cable_metrics.hpp"
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
/// their cables (cable.hpp), without reading from them, and tells how those
/// carry. On the loop's thread, but for close().
class GroupWatch : public std::enable_shared_from_this<GroupWatch> {
public:
  using OnDown = std::function<void(uint32_t rank)>;

  /// `names` are those of the members, by rank, under which `metrics` has what
  /// their cables carry; null: nobody is told.
  GroupWatch(std::shared_ptr<IoLoop> loop, std::vector<std::string> names,
             std::chrono::milliseconds patience,
             std::shared_ptr<MetricRegistry> metrics);

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
    std::string name;
    Descriptor connection{};
    CableMetrics cable{};
    uint64_t watch = 0;
    bool down = false;
    bool told = false;
  };

  void down(uint32_t rank);
  void look_at_cables();
  void show(Peer& peer, bool whole) const;
  void tell_all();

  std::shared_ptr<IoLoop> loop_;
  const std::chrono::milliseconds patience_;
  std::shared_ptr<MetricRegistry> metrics_;
  std::vector<Peer> peers_;
  IoLoop::Clock::time_point shown_{};
  uint64_t timer_ = 0;
  std::recursive_mutex mutex_; ///< held while the handler runs
  OnDown on_down_;
  bool closed_ = false;
};

} // namespace troupe
