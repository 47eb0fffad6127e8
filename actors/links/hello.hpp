#pragma once

#include "actors/links/link_endpoint.hpp"
#include "actors/wire/messages.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace troupe {

/// Counts versions of the handshake and of all that travels on links; both
/// sides must agree.
constexpr uint32_t link_revision = 4;
/// Bytes of a greeting's body; nothing larger is read.
constexpr uint32_t largest_greeting = 1024;
constexpr size_t longest_link_name = 128;
constexpr size_t longest_member_name = 64;
constexpr size_t longest_refusal = 400;

enum class LinkPurpose : uint8_t { group, channel };

/// The first thing that whoever connects says, under TLS or on a socket of
/// this host.
struct LinkHello {
  uint32_t revision = link_revision;
  LinkPurpose purpose = LinkPurpose::group;
  std::string key; ///< of the process that accepts: the job told it
  uint64_t id = 0; ///< of the process that connects
  Fence fence;
  std::string name; ///< of the group or channel
  std::string from; ///< who connects, for people
  uint32_t rank = 0;
  uint32_t members = 0;
  bool shared = false;    ///< the group goes over shared memory
  bool encrypted = false; ///< wants TLS to go on after the handshake
  bool segment = false;   ///< a memory file comes with it

  friend bool operator==(const LinkHello&, const LinkHello&) = default;
};

/// The answer.
struct LinkWelcome {
  uint64_t id = 0;     ///< of the process that accepts
  std::string refusal; ///< one line; empty: welcome
  bool segment = false;
  bool control = false; ///< rank 0's memory file comes as well, after it

  friend bool operator==(const LinkWelcome&, const LinkWelcome&) = default;
};

/// Writes it with the length in front (4 bytes, little-endian).
std::string encode(const LinkHello& hello);
std::string encode(const LinkWelcome& welcome);

/// Reads a body, without the length. Errors: nullopt for anything else than
/// what encode() makes; a hello of another revision has its number alone.
std::optional<LinkHello> decode_hello(std::span<const char> body);
std::optional<LinkWelcome> decode_welcome(std::span<const char> body);

} // namespace troupe
