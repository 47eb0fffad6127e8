#include "actors/control/wire_check.hpp"

#include "actors/control/message_rules.hpp"

#include <caf/actor_system.hpp>
#include <caf/binary_deserializer.hpp>
#include <caf/detail/meta_object.hpp>
#include <caf/execution_unit.hpp>

#include <array>

namespace troupe {
namespace {

constexpr size_t max_types = 8;

using caf::io::basp::header;
using caf::io::basp::message_type;

/// CAF's brokers ask one another for this, and use the answer for nothing here.
bool is_introduction(const header& head, caf::type_id_list types) {
  if (head.has(header::named_receiver_flag))
    return head.dest_actor == header::spawn_server_id
           && types
                == caf::make_type_id_list<caf::sys_atom, caf::get_atom,
                                          std::string>();
  return types
         == caf::make_type_id_list<caf::ok_atom, std::string,
                                   caf::strong_actor_ptr, std::string>();
}

} // namespace

std::string WireCheck::take(caf::execution_unit* on,
                            const caf::byte_buffer& bytes) {
  if (!awaits_payload_)
    return take_header(on, bytes);
  awaits_payload_ = false;
  return take_payload(on, bytes);
}

std::string WireCheck::take_header(caf::execution_unit* on,
                                   const caf::byte_buffer& bytes) {
  caf::binary_deserializer source{on, bytes};
  if (!source.apply(header_))
    return "a header that cannot be read";
  awaits_payload_ = header_.payload_len > 0;
  const bool greets = is_handshake(header_);
  if (greets == static_cast<bool>(node_))
    return greets ? "a second greeting" : "a message before its greeting";
  if (header_.operation == message_type::routed_message)
    return "a message for others, or of others";
  return {};
}

std::string WireCheck::take_payload(caf::execution_unit* on,
                                    const caf::byte_buffer& bytes) {
  caf::binary_deserializer source{on, bytes};
  caf::node_id from;
  switch (header_.operation) {
    case message_type::server_handshake:
    case message_type::client_handshake:
      if (!source.apply(from) || !from)
        return "a greeting that cannot be read";
      node_ = from;
      return nodes_.belongs(node_, peer_) ? ""
                                          : "it takes another member's node";
    case message_type::monitor_message:
    case message_type::down_message: {
      caf::node_id to;
      const bool own = source.apply(from) && source.apply(to) && from == node_
                       && to == on->system().node();
      return own ? "" : "news of others";
    }
    case message_type::direct_message:
      return take_message(on, bytes);
    default:
      return "a payload where there is none";
  }
}

std::string WireCheck::take_message(caf::execution_unit* on,
                                    const caf::byte_buffer& bytes) const {
  caf::binary_deserializer source{on, bytes};
  size_t stages = 0;
  if (!source.begin_sequence(stages) || stages != 0)
    return "a message by way of others";
  const auto rest = source.remainder();
  size_t count = 0;
  if (!source.begin_sequence(count) || count > max_types)
    return "a message that cannot be read";
  // CAF's own lists of types are never freed.
  std::array<caf::type_id_t, max_types + 1> types{
    static_cast<caf::type_id_t>(count)};
  for (size_t i = 1; i <= count; ++i)
    if (!source.value(types[i])
        || caf::detail::global_meta_object(types[i]) == nullptr)
      return "a message that cannot be read";
  const caf::type_id_list said{types.data()};
  if (is_introduction(header_, said))
    return {};
  if (header_.has(header::named_receiver_flag))
    return "a message to CAF's own actors";
  auto why = refusal(peer_, said);
  if (!why.empty() || count != 1 || !names_a_role(said[0]))
    return why;
  caf::binary_deserializer whole{on, rest.data(), rest.size()};
  caf::message message;
  if (!whole.apply(message))
    return "a message that cannot be read";
  return refusal(peer_, message);
}

} // namespace troupe
