#pragma once

#include "actors/control/pending_connection.hpp"
#include "actors/control/vetted_connections.hpp"
#include "actors/control/wire_check.hpp"

#include <caf/io/network/default_multiplexer.hpp>
#include <caf/io/network/stream_impl.hpp>
#include <caf/io/scribe.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace troupe {

/// How CAF's streams read and write an encrypted connection.
class SecureBytes {
public:
  using Socket = caf::io::network::native_socket;
  using State = caf::io::network::rw_state;

  using Broken = std::function<void(const std::string& why)>;

  /// `pending`: the handshake is still to be made; it follows how far that is.
  /// `broken` is told once why the connection cannot be used, if not because it
  /// ended.
  SecureBytes(TlsSession session, std::shared_ptr<PendingConnection> pending,
              Broken broken);

  State read_some(size_t& result, Socket, void* bytes, size_t size);
  State write_some(size_t& result, Socket, const void* bytes, size_t size);
  bool must_read_more(Socket, size_t threshold);

private:
  State handshake();
  State judge(int result);

  TlsSession session_;
  std::shared_ptr<PendingConnection> pending_; ///< null: it was heard
  bool connecting_;
  Broken broken_;
};

/// A connection of CAF's broker over TLS: who says what its certificate does
/// not allow is cut off before CAF hears it.
class SecureScribe : public caf::io::scribe {
public:
  struct Environment {
    std::shared_ptr<KnownNodes> nodes;
    std::shared_ptr<const TlsContext> tls;
    /// Told why a peer was cut off.
    SecureBytes::Broken broken;
    /// Of a connection that is made here; null: it was accepted.
    std::shared_ptr<PendingConnection> pending{};
  };
  /// Owns the socket.
  SecureScribe(caf::io::network::default_multiplexer& sockets,
               VettedConnection connection, Environment environment);
  ~SecureScribe() override;

  bool consume(caf::execution_unit* on, const void* bytes,
               size_t size) override;

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
  ssl_st* session_;                ///< the stream's
  int socket_;                     ///< the same
  std::optional<WireCheck> check_; ///< from the first bytes on
  bool cut_off_ = false;
  std::vector<LiveConnections::Entry> entries_; ///< once it is known who it is
  caf::io::network::stream_impl<SecureBytes> stream_;
  Environment environment_;
};

} // namespace troupe
