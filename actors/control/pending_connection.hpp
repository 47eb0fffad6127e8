#pragma once

#include "actors/control/reach.hpp"
#include "actors/sockets/endpoint.hpp"

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

namespace troupe {

/// A connection that this process makes, until the other side has said its
/// first word. Its own state tells what it waits for, so that nobody makes a
/// second one to find that out: a thousand roles would make a thousand.
/// Thread-safe.
///
///   handshake --shown()--> shown --heard()--> over
///       |                    |
///       +----- failed() -----+--> failed
class PendingConnection {
public:
  explicit PendingConnection(Endpoint where) : where_(std::move(where)) {}

  /// The handshake is done on this side, which has seen a certificate.
  void shown() { go_to(Stage::shown); }
  /// The other side has said something.
  void heard() { go_to(Stage::over); }
  /// `why(where)` tells what that means.
  template <class Why>
  void failed(Why why) {
    auto reach = why(where_);
    const std::lock_guard guard{mutex_};
    if (stage_ == Stage::over)
      return;
    stage_ = Stage::failed;
    why_ = std::move(reach);
  }
  /// The connection is no more; why it failed is kept.
  void ended() {
    const std::lock_guard guard{mutex_};
    if (stage_ != Stage::failed)
      stage_ = Stage::over;
  }
  /// What it waits for, or why it failed; nothing: neither.
  std::optional<Reach> reach() const {
    const std::lock_guard guard{mutex_};
    if (stage_ == Stage::over)
      return std::nullopt;
    if (stage_ == Stage::failed)
      return why_;
    return reach_of_waiting(where_, stage_ == Stage::shown);
  }

private:
  enum class Stage { handshake, shown, over, failed };

  void go_to(Stage stage) {
    const std::lock_guard guard{mutex_};
    stage_ = stage;
  }

  const Endpoint where_;
  mutable std::mutex mutex_;
  Stage stage_ = Stage::handshake;
  Reach why_{};
};

/// The newest connection to each address. Thread-safe.
class PendingConnections {
public:
  std::shared_ptr<PendingConnection> begin(const Endpoint& where) {
    auto made = std::make_shared<PendingConnection>(where);
    const std::lock_guard guard{mutex_};
    if (newest_.size() >= max_kept)
      std::erase_if(newest_, [](const auto& x) { return !x.second->reach(); });
    if (newest_.size() < max_kept)
      newest_[to_string(where)] = made;
    return made;
  }
  /// What the newest one waits for. Why it failed is told once.
  std::optional<Reach> look(const Endpoint& where) {
    const std::lock_guard guard{mutex_};
    const auto found = newest_.find(to_string(where));
    if (found == newest_.end())
      return std::nullopt;
    auto reach = found->second->reach();
    if (!reach || !reach->under_way)
      newest_.erase(found);
    return reach;
  }

private:
  static constexpr size_t max_kept = 256;

  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<PendingConnection>> newest_;
};

} // namespace troupe
