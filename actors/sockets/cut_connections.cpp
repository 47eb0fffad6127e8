#include "actors/sockets/cut_connections.hpp"

#include "actors/sockets/addresses.hpp"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <filesystem>
#include <string>

namespace troupe {
namespace {

struct Connection {
  int descriptor;
  uint16_t port; ///< of the peer; 0: within this host
};

/// Descriptors that are duplicates of one another are one each.
std::vector<Connection> connections() {
  std::vector<Connection> found;
  std::error_code ignored;
  for (const auto& entry :
       std::filesystem::directory_iterator{"/proc/self/fd", ignored}) {
    const int descriptor = std::stoi(entry.path().filename().string());
    sockaddr_storage peer{};
    socklen_t size = sizeof peer;
    if (::getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &size)
        != 0)
      continue; // no socket, or not connected
    uint16_t port = 0;
    if (peer.ss_family == AF_INET)
      port = ntohs(reinterpret_cast<const sockaddr_in*>(&peer)->sin_port);
    else if (peer.ss_family == AF_INET6)
      port = ntohs(reinterpret_cast<const sockaddr_in6*>(&peer)->sin6_port);
    found.push_back({descriptor, port});
  }
  std::ranges::sort(found, {}, &Connection::descriptor);
  return found;
}

bool leads_to(const Connection& connection,
              const std::vector<Endpoint>& places) {
  return connection.port != 0
         && std::ranges::find(places, connection.port, &Endpoint::port)
              != places.end();
}

} // namespace

void cut_connections(const std::vector<Endpoint>& places) {
  for (const auto& connection : connections())
    if (leads_to(connection, places))
      ::shutdown(connection.descriptor, SHUT_RDWR);
}

std::vector<int> connections_to(const std::vector<Endpoint>& places) {
  std::vector<int> out;
  for (const auto& place : places) {
    const auto there = SocketAddress::find(place.host, place.port);
    for (const auto& connection : connections()) {
      const auto peer = SocketAddress::of_peer(connection.descriptor);
      if (there && peer.port() == place.port && peer.host() == there->host())
        out.push_back(connection.descriptor);
    }
  }
  return out;
}

void end_connections(const std::vector<Endpoint>& places) {
  for (const int descriptor : connections_to(places))
    ::shutdown(descriptor, SHUT_RDWR);
}

void cut_other_connection(const std::vector<Endpoint>& places, uint32_t which) {
  auto others = connections();
  std::erase_if(others, [&](const Connection& connection) {
    return leads_to(connection, places);
  });
  if (!others.empty())
    ::shutdown(others[which % others.size()].descriptor, SHUT_RDWR);
}

} // namespace troupe
