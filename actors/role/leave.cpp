#include "actors/role/leave.hpp"

#include "actors/wire/error_line.hpp"
#include "kernels/base/steady_clock.hpp"

#include <chrono>
#include <optional>
#include <stdexcept>

namespace troupe {
namespace {

using Clock = SteadyClock;

constexpr std::chrono::milliseconds period{100};
/// Others may hand over before, and slices may have to be copied.
constexpr std::chrono::seconds deadline{300};
/// All roles of a process are told of the end of a run at once.
constexpr std::chrono::seconds end_deadline{5};

/// Asks on another actor, so that the caller still sees the role end; what
/// became of it comes back as Note or GiveUp.
void ask_to_leave(caf::scoped_actor& self, const coordinator_actor& coordinator,
                  const LeaveRequest& request) {
  auto caller = caf::actor_cast<caf::actor>(self.ptr());
  self->system().spawn(
    [coordinator, caller, request](caf::event_based_actor* asker) {
      asker->monitor(coordinator);
      asker->set_down_handler([asker](const caf::down_msg&) { asker->quit(); });
      asker->request(coordinator, deadline, request)
        .then([asker](const Note&) { asker->quit(); },
              [asker, caller](const caf::error& why) {
                // Where the coordinator is gone, the next one is to be asked.
                asker->send(caller,
                            GiveUp{asked_is_gone(why) ? "" : line_of(why)});
                asker->quit();
              });
    });
}

} // namespace

caf::error wait_until_over(caf::scoped_actor& self,
                           const coordinator_actor& coordinator, uint64_t job,
                           RoleId role, size_t roles,
                           const std::function<std::string()>& wish) {
  std::optional<caf::error> over;
  std::optional<Clock::time_point> ended; // the first of them
  std::optional<Clock::time_point> wished;
  Clock::time_point again; // not asked sooner
  bool asking = false;
  while (!over) {
    const bool may_ask = !asking && Clock::now() >= again && wish;
    if (const auto why = may_ask ? wish() : ""; !why.empty()) {
      wished = wished.value_or(Clock::now());
      asking = true;
      ask_to_leave(self, coordinator, {job, role, why});
    }
    self->receive(
      [&](const caf::down_msg& down) {
        ended = ended.value_or(Clock::now());
        const bool well = !down.reason
                          || down.reason == caf::exit_reason::normal;
        if (!well || --roles == 0)
          over = down.reason;
      },
      [&](const GiveUp& refused) {
        asking = false;
        again = Clock::now() + period;
        if (!refused.line.empty() || Clock::now() - *wished > deadline)
          throw std::runtime_error(
            to_string(role) + " ends without handing over: " + refused.line);
      },
      caf::after(period) >> [] {});
    if (!over && ended && Clock::now() - *ended > end_deadline)
      over = caf::error{};
  }
  return *over;
}

} // namespace troupe
