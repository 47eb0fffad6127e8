#pragma once

#include "apps/settings/chaos_kind.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

/// The variable of a role's environment that names the proxy, HOST:PORT,
/// through which its links over TCP are dialled.
inline constexpr const char* link_proxy_variable = "TROUPE_LINK_PROXY";

/// The variable of a role's environment that says where roles reach their
/// coordinator: ROLE=HOST:PORT,….
inline constexpr const char* control_proxy_variable = "TROUPE_CONTROL_PROXY";
/// What that says of a role; empty: nothing.
std::string control_proxy_of(const std::string& role, const char* addresses);

/// Stands between the processes of a job whose links are dialled through it,
/// on this host, and does to a link what bad networks do:
/// nothing passes for a while, in both directions or in one; little does; a bit
/// changes. Which link of a role, which direction and which bit follow from the
/// seed and from what has passed. Roles may reach their coordinator through it
/// as well, each at an address of its own: what passes there can be late.
class FaultProxy {
public:
  /// Errors: InputError where it cannot listen.
  /// `controlled`: roles that reach their coordinator through it.
  explicit FaultProxy(uint64_t seed, std::vector<std::string> controlled = {});
  ~FaultProxy();

  std::string address() const;           ///< HOST:PORT
  std::string control_addresses() const; ///< as control_proxy_variable
  /// Where the coordinator is; until then those who want it wait.
  void lead_to(const std::string& coordinator);

  /// Strikes a link of the role for `lasts` (flip: at once). Returns when
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
