#pragma once

#include "tests/sim/runtime.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>

struct iovec;

namespace troupe::sim {

class Fiber;

/// Streams of bytes between simulated processes: what a LinkSocket is an end
/// of. They take some bytes and no more, late, in pieces, and end.
class ByteLinks {
public:
  ByteLinks();
  ~ByteLinks();
  ByteLinks(const ByteLinks&) = delete;
  ByteLinks& operator=(const ByteLinks&) = delete;
  /// Of the world that runs; null: it is over.
  static ByteLinks* find();

  /// Descriptors of both ends.
  std::pair<int, int> connect(uint32_t a, uint32_t b);
  struct Io {
    size_t bytes = 0;
    bool down = false;
  };
  Io send(int end, std::span<const iovec> pieces);
  Io receive(int end, void* into, size_t size);
  void cut(int end);
  void close(int end);
  bool is_readable(int end);
  bool is_writable(int end);
  /// Calls it once when the other side has ended the stream first.
  void watch(int end, std::function<void()> down);
  /// Waits, in a task of a process, until something moves or that time; false:
  /// as Fiber's.
  static bool wait_until(uint64_t time);

  /// Streams between two are lost; returns how many there were.
  size_t cut_between(uint32_t a, uint32_t b);
  /// A process has ended.
  void ended(uint32_t process);
  bool under_way() const { return under_way_ > 0; }

private:
  struct End {
    uint32_t process = 0;
    int other = 0;
    std::string inbox;
    size_t on_way = 0;  ///< bytes to it
    Stream stream;      ///< to it
    bool lost = false;  ///< what is sent to it
    bool open = true;   ///< somebody has it
    bool ended = false; ///< by its own side
    bool over = false;  ///< it has heard of the other side's end
    std::function<void()> watch;
  };

  End& at(int end) { return ends_.at(end); }
  void wake(uint32_t process);
  void say_end(int to, bool loses);
  void heard_end(int end);

  std::map<int, End> ends_;
  std::map<uint32_t, std::weak_ptr<Fiber>> waiting_; ///< by process
  int next_;
  uint64_t under_way_ = 0;
};

} // namespace troupe::sim
