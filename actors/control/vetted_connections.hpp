#pragma once

#include "actors/certificates/tls_context.hpp"
#include "actors/sockets/descriptor.hpp"

#include <deque>
#include <mutex>
#include <optional>
#include <string>

namespace troupe {

/// A connection whose TLS handshake is done: the other side has shown a
/// certificate of the job's authority.
struct VettedConnection {
  Descriptor socket;
  TlsSession session; ///< after socket: freed first
  std::string from{}; ///< address
};

/// Hands connections from the door's thread to the thread of CAF's sockets,
/// which is told by a descriptor: it can be read while somebody waits.
/// Thread-safe.
class VettedConnections {
public:
  /// Errors: InputError when the process is out of descriptors.
  VettedConnections();

  void put(VettedConnection connection);
  /// The oldest; nothing where there is none.
  std::optional<VettedConnection> take();
  /// The reading end; it is the caller's to close, once.
  int take_signal() { return reader_.release(); }

private:
  std::mutex mutex_;
  std::deque<VettedConnection> waiting_;
  Descriptor reader_;
  Descriptor writer_;
  int signal_;
};

} // namespace troupe
