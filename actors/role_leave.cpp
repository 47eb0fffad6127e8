#include "actors/role_leave.hpp"

#include "actors/error_line.hpp"
#include "strategies/reshape.hpp"

#include <chrono>
#include <optional>
#include <stdexcept>

namespace troupe {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds period{100};
/// Slices may have to be copied.
constexpr std::chrono::seconds deadline{300};
/// How long another change may be under way before this one.
constexpr std::chrono::seconds patience{20};

/// Asks on another actor, so that the caller still sees the role end; a refusal
/// comes back as GiveUp.
void ask_to_leave(caf::scoped_actor& self, const coordinator_actor& coordinator,
                  RoleId role) {
  Reshape wish;
  wish.kind = Reshape::Kind::remove;
  wish.from = role;
  auto caller = caf::actor_cast<caf::actor>(self.ptr());
  self->system().spawn([coordinator, caller,
                        what = to_string(wish)](caf::event_based_actor* asker) {
    asker->monitor(coordinator);
    asker->set_down_handler([asker](const caf::down_msg&) { asker->quit(); });
    asker->request(coordinator, deadline, ReshapeJob{what})
      .then([asker](const Note&) { asker->quit(); },
            [asker, caller](const caf::error& why) {
              asker->send(caller, GiveUp{line_of(why)});
              asker->quit();
            });
  });
}

} // namespace

caf::error wait_until_over(caf::scoped_actor& self,
                           const coordinator_actor& coordinator, RoleId role,
                           const std::function<std::string()>& wish) {
  std::optional<caf::error> over;
  std::optional<Clock::time_point> wished;
  bool asking = false;
  while (!over) {
    if (!asking && wish && !wish().empty()) {
      wished = wished.value_or(Clock::now());
      asking = true;
      ask_to_leave(self, coordinator, role);
    }
    self->receive([&](const caf::down_msg& down) { over = down.reason; },
                  [&](const GiveUp& refused) {
                    asking = false;
                    if (Clock::now() - *wished > patience
                        || refused.line.find("under way") == std::string::npos)
                      throw std::runtime_error(to_string(role)
                                               + " ends without handing over: "
                                               + refused.line);
                  },
                  caf::after(period) >> [] {});
  }
  return *over;
}

} // namespace troupe
