#pragma once

#include "actors/sockets/io_loop.hpp"
#include "actors/sockets/socket.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

namespace troupe {

/// What is said on a link that is tried: some packets as large as a link's, on
/// networks that carry 9,000 bytes at once, too.
inline constexpr size_t echo_bytes = size_t{32} << 10;

/// One end of a stream on which all that one side says has to come back from
/// the other. So large packets get through, both ways; that a connection can be
/// made and greets shows it of small ones. On the loop's thread; its end gives
/// it up.
class Echo {
public:
  enum class Side : bool { asks, answers };

  /// Completion: done(whether all got through, as far as this side knows) once,
  /// not before the constructor has returned, at the deadline at the latest; it
  /// may end this object.
  Echo(IoLoop& loop, std::unique_ptr<LinkSocket> socket, Side side,
       IoLoop::Clock::time_point deadline, std::function<void(bool all)> done);
  ~Echo();
  Echo(const Echo&) = delete;
  Echo& operator=(const Echo&) = delete;

  /// Ends it now: done(false).
  void end() { tell(false); }

private:
  void advance();
  void watch();
  void stop();
  void tell(bool all);

  IoLoop& loop_;
  std::unique_ptr<LinkSocket> socket_;
  Side side_;
  std::function<void(bool)> done_;
  bool sends_;
  std::vector<char> bytes_;
  size_t moved_ = 0;
  uint64_t watch_ = 0;
  uint64_t timer_ = 0;
  uint64_t start_ = 0;
};

} // namespace troupe
