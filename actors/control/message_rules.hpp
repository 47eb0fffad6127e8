#pragma once

#include "actors/certificates/member_name.hpp"
#include "actors/wire/caf.hpp"

#include <string>

namespace troupe {

/// Tells whether a member may say something to an actor of another process: a
/// message has kinds of members that send it, and where it names a role it is
/// the sender's own. What travels on links only, and what nobody sends, nobody
/// may say. Returns why not, empty: it may.
std::string refusal(const MemberName& who, const caf::message& said);

/// Tells whether that needs the whole message, or its types are enough.
bool names_a_role(caf::type_id_t type);
/// Judges a message by its types alone.
std::string refusal(const MemberName& who, caf::type_id_list said);

} // namespace troupe
