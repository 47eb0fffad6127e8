#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>

namespace troupe {

/// The bytes of a connection that never waits, as they travel or under a
/// cipher.
class PageStream {
public:
  static constexpr ssize_t not_now = -1;

  virtual ~PageStream() = default;
  /// Returns how many bytes were read or written; 0: it is over; not_now: once
  /// the socket is ready for awaits().
  virtual ssize_t read(char* into, size_t size) = 0;
  virtual ssize_t write(const char* from, size_t size) = 0;
  /// POLLIN or POLLOUT.
  virtual short awaits() const = 0;
  /// Says that nothing more is written.
  virtual void end() = 0;
};

/// Bytes as they travel. The socket is not owned.
std::unique_ptr<PageStream> plain_stream(int socket);

} // namespace troupe
