#pragma once

#include "apps/chaos_kind.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace troupe {

/// In a role's environment: HOST:PORT of a proxy that its links over TCP are
/// dialled through.
inline constexpr const char* link_proxy_variable = "TROUPE_LINK_PROXY";

/// Stands between the processes of a job whose links are dialled through it,
/// on this host, and does to a link what bad networks do:
/// nothing passes for a while, in both directions or in one; little does; a bit
/// changes; the connection is reset. Which link of a role, which direction and
/// which bit follow from the seed and from what has passed.
class FaultProxy {
public:
  /// Errors: InputError where it cannot listen.
  explicit FaultProxy(uint64_t seed);
  ~FaultProxy();

  std::string address() const; ///< HOST:PORT

  /// Strikes a link of the role for `lasts` (cut, flip: at once). Returns when
  /// it is over and something had been on its way then; false: the role has no
  /// link through here, or nothing passed in time.
  bool strike(ChaosKind kind, const std::string& role,
              std::chrono::milliseconds lasts,
              std::chrono::milliseconds deadline);

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace troupe
