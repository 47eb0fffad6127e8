#pragma once

#include "actors/control/known_nodes.hpp"

#include <caf/byte_buffer.hpp>
#include <caf/io/basp/header.hpp>

#include <string>

namespace troupe {

/// Reads what a member says on a control connection before CAF does, and finds
/// what it may not say: CAF believes what a peer writes of its own name and of
/// others', and lets it reach any actor. One a connection; on the thread of
/// CAF's sockets.
class WireCheck {
public:
  WireCheck(const MemberName& peer, KnownNodes& nodes)
    : peer_(peer), nodes_(nodes) {}

  /// Takes the next header, or the payload that belongs to the one before.
  /// Returns what is wrong with it, empty: nothing.
  std::string take(caf::execution_unit* on, const caf::byte_buffer& bytes);

private:
  std::string take_header(caf::execution_unit* on,
                          const caf::byte_buffer& bytes);
  std::string take_payload(caf::execution_unit* on,
                           const caf::byte_buffer& bytes);
  std::string take_message(caf::execution_unit* on,
                           const caf::byte_buffer& bytes) const;

  MemberName peer_;
  KnownNodes& nodes_;
  caf::node_id node_; ///< none: it has not said yet
  caf::io::basp::header header_;
  bool awaits_payload_ = false;
};

} // namespace troupe
