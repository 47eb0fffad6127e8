#pragma once

#include "actors/sockets/endpoint.hpp"

#include <cstdint>
#include <vector>

namespace troupe {

/// Ends the connections of this process to these places (by their ports), for
/// both sides at once, whoever uses them. For faults on purpose.
void cut_connections(const std::vector<Endpoint>& places);

/// Descriptors of those to these places, by addresses and ports.
std::vector<int> connections_to(const std::vector<Endpoint>& places);

/// Ends those: of a host that does not answer.
void end_connections(const std::vector<Endpoint>& places);

/// Ends another one, over TCP or within this host: of those there are, the one
/// with that number, modulo. None: does nothing.
void cut_other_connection(const std::vector<Endpoint>& places, uint32_t which);

} // namespace troupe
