#pragma once

#include "actors/control/vetted_connections.hpp"

#include <caf/io/network/default_multiplexer.hpp>
#include <caf/io/network/stream_impl.hpp>
#include <caf/io/scribe.hpp>

namespace troupe {

/// How CAF's streams read and write an encrypted connection.
class SecureBytes {
public:
  using Socket = caf::io::network::native_socket;
  using State = caf::io::network::rw_state;

  /// `connecting`: the handshake is still to be made.
  SecureBytes(TlsSession session, bool connecting);

  State read_some(size_t& result, Socket, void* bytes, size_t size);
  State write_some(size_t& result, Socket, const void* bytes, size_t size);
  bool must_read_more(Socket, size_t threshold);

private:
  State handshake();

  TlsSession session_;
  bool connecting_;
};

/// A connection of CAF's broker over TLS.
class SecureScribe : public caf::io::scribe {
public:
  /// Owns the socket.
  SecureScribe(caf::io::network::default_multiplexer& sockets,
               VettedConnection connection, bool connecting);

  void configure_read(caf::io::receive_policy::config config) override;
  void ack_writes(bool enable) override;
  caf::byte_buffer& wr_buf() override { return stream_.wr_buf(); }
  caf::byte_buffer& rd_buf() override { return stream_.rd_buf(); }
  void graceful_shutdown() override;
  void flush() override { stream_.flush(this); }
  std::string addr() const override;
  uint16_t port() const override;
  void add_to_loop() override { stream_.activate(this); }
  void remove_from_loop() override { stream_.passivate(); }

private:
  bool launched_ = false;
  caf::io::network::stream_impl<SecureBytes> stream_;
};

} // namespace troupe
