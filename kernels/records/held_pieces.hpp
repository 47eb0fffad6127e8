#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace troupe {

/// Pieces of files that are read when they are wanted and kept while there is
/// room; what was not used for longest goes. Any thread may ask.
template <class Piece>
class HeldPieces {
public:
  explicit HeldPieces(uint64_t memory) : memory_(memory) {}

  /// A piece of at most `memory` bytes, made by read() where it is not here;
  /// whoever else wants it meanwhile waits. Errors: those of read().
  template <class Read>
  std::shared_ptr<const Piece>
  get(uint64_t key, uint64_t bytes, const Read& read) {
    std::unique_lock lock{mutex_};
    auto& held = held_[key];
    while (held.on_its_way)
      changed_.wait(lock);
    if (held.piece) {
      order_.splice(order_.begin(), order_, held.used);
      return held.piece;
    }
    held.on_its_way = true;
    held.bytes = bytes;
    make_room_for(bytes, lock);
    lock.unlock();
    std::shared_ptr<const Piece> piece;
    std::exception_ptr failure;
    try {
      piece = read();
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    --on_their_way_;
    held.on_its_way = false;
    held.piece = piece;
    if (piece) {
      order_.push_front(key);
      held.used = order_.begin();
    } else {
      taken_ -= bytes;
    }
    changed_.notify_all();
    if (failure)
      std::rethrow_exception(failure);
    return piece;
  }

  /// Whether a piece is here, or on its way.
  bool has(uint64_t key) const {
    const std::lock_guard guard{mutex_};
    const auto at = held_.find(key);
    return at != held_.end() && (at->second.piece || at->second.on_its_way);
  }

  /// Lets go of all. Not while others ask.
  void clear() {
    held_.clear();
    order_.clear();
    taken_ = 0;
  }

private:
  struct Held {
    std::shared_ptr<const Piece> piece; ///< null: not here
    uint64_t bytes = 0;
    bool on_its_way = false;
    std::list<uint64_t>::iterator used{}; ///< of `piece`
  };

  /// Where nothing can go, what is on its way is waited for.
  void make_room_for(uint64_t bytes, std::unique_lock<std::mutex>& lock) {
    while (taken_ + bytes > memory_) {
      if (!order_.empty()) {
        auto& last = held_[order_.back()];
        taken_ -= last.bytes;
        last.piece.reset();
        order_.pop_back();
      } else if (on_their_way_ > 0) {
        changed_.wait(lock);
      } else {
        break;
      }
    }
    taken_ += bytes;
    ++on_their_way_;
  }

  const uint64_t memory_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::unordered_map<uint64_t, Held> held_;
  std::list<uint64_t> order_; ///< that are here, used last first
  uint64_t taken_ = 0;        ///< bytes, of those on their way, too
  size_t on_their_way_ = 0;
};

} // namespace troupe
