#include "actors/links/group_watch.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace troupe {
namespace {

/// Whether this side ended a TCP connection first: LinkSocket::cut() wakes the
/// watch as well.
bool ended_here(int descriptor) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &size) != 0)
    return false; // not TCP: nobody but the watch has it
  return info.tcpi_state == TCP_FIN_WAIT1 || info.tcpi_state == TCP_FIN_WAIT2
         || info.tcpi_state == TCP_CLOSING || info.tcpi_state == TCP_TIME_WAIT;
}

} // namespace

GroupWatch::GroupWatch(std::shared_ptr<IoLoop> loop,
                       std::vector<std::string> names,
                       std::chrono::milliseconds patience,
                       std::shared_ptr<MetricRegistry> metrics)
  : loop_(std::move(loop)), patience_(patience), metrics_(std::move(metrics)) {
  for (auto& name : names)
    peers_.push_back({.name = std::move(name)});
}

void GroupWatch::add(uint32_t rank, Descriptor connection) {
  std::lock_guard lock{mutex_};
  auto& peer = peers_[rank];
  loop_->unwatch(peer.watch);
  peer.connection = std::move(connection);
  // What arrives does not wake this thread: the stream's owner reads it.
  peer.watch = loop_->watch(peer.connection.get(), EPOLLRDHUP,
                            [keep = shared_from_this(), rank](uint32_t) {
                              keep->down(rank);
                            });
  if (timer_ == 0)
    look_at_cables();
}

void GroupWatch::look_at_cables() {
  std::lock_guard lock{mutex_};
  const auto now = IoLoop::Clock::now();
  const bool whole = now - shown_ >= cable_show_period;
  if (whole)
    shown_ = now;
  for (uint32_t rank = 0; rank < peers_.size() && !closed_; ++rank) {
    auto& peer = peers_[rank];
    if (peer.watch != 0 && metrics_)
      show(peer, whole);
    if (peer.watch != 0 && is_cut(peer.connection.get(), patience_))
      down(rank);
  }
  timer_ = closed_ ? 0
                   : loop_->at(IoLoop::Clock::now() + cable_period,
                               [weak = weak_from_this()] {
                                 if (auto self = weak.lock())
                                   self->look_at_cables();
                               });
}

/// `whole`: what it has carried, too.
void GroupWatch::show(Peer& peer, bool whole) const {
  const auto counts = cable_counts(peer.connection.get());
  if (!counts)
    return;
  peer.cable.look(*counts, *metrics_, peer.name);
  if (whole)
    peer.cable.show(*counts, *metrics_, peer.name);
}

void GroupWatch::down(uint32_t rank) {
  std::lock_guard lock{mutex_};
  loop_->unwatch(std::exchange(peers_[rank].watch, 0));
  peers_[rank].cable.end();
  // Otherwise the peers would be blamed for it.
  if (ended_here(peers_[rank].connection.get()))
    return;
  peers_[rank].down = true;
  tell_all();
}

void GroupWatch::tell(OnDown on_down) {
  std::lock_guard lock{mutex_};
  on_down_ = closed_ ? nullptr : std::move(on_down);
  tell_all();
}

void GroupWatch::tell_all() {
  for (uint32_t rank = 0; rank < peers_.size(); ++rank) {
    if (closed_ || !on_down_)
      return;
    auto& peer = peers_[rank];
    if (!peer.down || std::exchange(peer.told, true))
      continue;
    auto handler = on_down_; // it may be replaced meanwhile
    handler(rank);
  }
}

void GroupWatch::close() {
  {
    std::lock_guard lock{mutex_};
    if (std::exchange(closed_, true))
      return;
    on_down_ = nullptr;
  }
  auto release = [self = shared_from_this()] {
    self->loop_->cancel(std::exchange(self->timer_, 0));
    for (auto& peer : self->peers_) {
      self->loop_->unwatch(std::exchange(peer.watch, 0));
      peer.connection.reset();
      peer.cable.end();
    }
  };
  if (loop_->on_own_thread())
    release();
  else
    loop_->post(release); // a loop that has ended has forgotten the watches
}

} // namespace troupe
