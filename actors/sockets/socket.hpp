#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

struct ssl_st;

namespace troupe {

/// One end of a connected, authenticated byte stream between two processes,
/// never blocking. Used by one thread at a time.
class LinkSocket {
public:
  struct Io {
    size_t bytes = 0;  ///< taken or given; 0: would block
    bool down = false; ///< the peer is gone or the stream is broken
  };

  /// Owns both; `session` is the TLS session over the descriptor, or null for
  /// plain bytes.
  explicit LinkSocket(int descriptor, ssl_st* session = nullptr);
  ~LinkSocket();
  LinkSocket(const LinkSocket&) = delete;
  LinkSocket& operator=(const LinkSocket&) = delete;

  /// Sends from the pieces, in order, what fits now.
  Io send(std::span<const iovec> pieces);
  /// Receives up to `size` bytes.
  Io receive(void* into, size_t size);
  /// From here on the system takes little more than what is on its way to the
  /// peer; has no effect on sockets of one host.
  void keep_queue_short();
  /// Ends the stream in both directions, for peer and self; from any thread.
  void cut();
  /// Keeps these until the socket closes: they end first.
  void keep(std::vector<std::shared_ptr<void>> entries) {
    kept_ = std::move(entries);
  }

  int descriptor() const { return descriptor_; }
  bool encrypted() const { return session_ != nullptr; }

private:
  int descriptor_;
  ssl_st* session_;
  std::vector<std::shared_ptr<void>> kept_;
};

/// Settles what became of a socket's options for speed; for both ends, before a
/// StreamReducer gets it.
void tune_stream(int descriptor);

} // namespace troupe
