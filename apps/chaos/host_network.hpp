#pragma once

#include "actors/sockets/descriptor.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace troupe {

/// Hosts 0, 1, … of one network, made of network namespaces that live as long
/// as this object: each has one address, and a cable to a switch. The machine's
/// own network is not touched.
class HostNetwork {
public:
  /// Without root's rights this process becomes root of a user namespace first,
  /// which takes that it has one thread.
  /// Errors: InputError with what is missing or not allowed.
  explicit HostNetwork(size_t hosts);

  size_t size() const { return hosts_.size(); }
  std::string address(size_t host) const;
  /// What a command on that host begins with.
  std::vector<std::string> on(size_t host) const;

  /// Nothing gets from one host to another, silently; or does again.
  void block(size_t from, size_t to);
  void unblock(size_t from, size_t to);
  /// Nothing gets to the host or from it, and nobody is told; or does again.
  void unplug(size_t host);
  void plug(size_t host);
  /// What gets to the host, and what comes from it, is late and little; or not
  /// any more.
  /// Errors: InputError where the kernel cannot do that.
  void slow(size_t host);
  void hurry(size_t host);

private:
  using Words = std::vector<std::string>;

  void add(size_t host);
  void command(const Descriptor& where, const Words& words) const;

  Descriptor switch_;
  std::vector<Descriptor> hosts_;
};

} // namespace troupe
