#include "actors/launch/run_watch.hpp"

#include "actors/control/actor_node.hpp"
#include "actors/process/stop_status.hpp"
#include "actors/wire/error_line.hpp"
#include "kernels/base/error.hpp"

#include <atomic>
#include <memory>

namespace troupe {
namespace {

/// A step may take long, and the switch waits for one.
constexpr std::chrono::seconds switch_deadline{60};
/// Roles may have to be started, and slices to be copied.
constexpr std::chrono::seconds reshape_deadline{300};
constexpr auto watch_period = std::chrono::milliseconds{100};
constexpr uint64_t connect_deadline_ms = 5'000;

/// Errors: InputError, the coordinator's line.
std::string ask_to_switch(caf::scoped_actor& self,
                          const coordinator_actor& coordinator,
                          const std::string& mode) {
  std::string answer;
  std::string refused;
  self->request(coordinator, switch_deadline, SwitchConsistency{mode})
    .receive([&](const Note& x) { answer = x.line; },
             [&](const caf::error& why) {
               refused = why == caf::sec::request_timeout
                           ? "not within "
                               + std::to_string(switch_deadline.count()) + " s"
                           : "the coordinator refused: " + line_of(why);
             });
  if (!refused.empty())
    throw InputError("consistency " + mode + ": " + refused);
  return answer;
}

void switch_in(caf::scoped_actor& self, const coordinator_actor& coordinator,
               const std::string& mode, const RunEvents& events) {
  try {
    ask_to_switch(self, coordinator, mode); // the run says so itself
  } catch (const InputError& refused) {
    if (events.note)
      events.note(refused.what());
  }
}

/// What the coordinator has against it, or that it does not answer.
std::string reason_of(const caf::error& why, std::chrono::seconds deadline) {
  if (why == caf::sec::request_timeout)
    return "not within " + std::to_string(deadline.count())
           + " s; it may still happen";
  return line_of(why);
}

/// A wish to change the run, made while it is watched.
class ReshapeWish {
public:
  explicit ReshapeWish(const RunEvents& events) : events_(events) {}

  void look(caf::scoped_actor& self, const coordinator_actor& coordinator) {
    if (!events_.reshape || *under_way_)
      return;
    auto what = events_.reshape();
    if (what.empty())
      return;
    *under_way_ = true;
    auto answered = [under_way = under_way_, reshaped = events_.reshaped](
                      bool done, const std::string& line) {
      *under_way = false;
      if (reshaped)
        reshaped(done, line);
    };
    self->system().spawn(
      [coordinator, what, answered](caf::event_based_actor* asker) {
        asker->monitor(coordinator);
        asker->set_down_handler([asker, answered](const caf::down_msg&) {
          answered(false, "the run ended before");
          asker->quit();
        });
        asker->request(coordinator, reshape_deadline, ReshapeJob{what})
          .then(
            [asker, answered](const Note& x) {
              answered(true, x.line);
              asker->quit();
            },
            [asker, answered, what](const caf::error& why) {
              answered(false, what + ": " + reason_of(why, reshape_deadline));
              asker->quit();
            });
      });
  }

private:
  const RunEvents& events_;
  std::shared_ptr<std::atomic<bool>> under_way_ =
    std::make_shared<std::atomic<bool>>(false);
};

} // namespace

RunResult watch(caf::scoped_actor& self, const coordinator_actor& coordinator,
                const RunEvents& events) {
  RunResult result;
  bool over = false;
  std::string stopping; ///< why
  ReshapeWish wish{events};
  self->monitor(coordinator);
  self->send(coordinator, Attach{false});
  while (!over) {
    self->receive(
      [&](const Progress& x) {
        if (events.progress)
          events.progress(x);
      },
      [&](const DataEpochEnd& x) {
        if (events.epoch)
          events.epoch(x);
      },
      [&](const Spreads& x) {
        if (events.spreads)
          events.spreads(x);
      },
      [&](const Note& x) {
        if (events.note)
          events.note(x.line);
      },
      [&](const Finished& x) {
        result = {x.status, x.line, x.summary};
        over = true;
      },
      [&](const caf::down_msg& down) {
        if (stopping.empty() && events.stop)
          stopping = events.stop();
        result = {stopping.empty() ? 1 : stop_status(stopping),
                  down.reason ? line_of(down.reason) : "the coordinator died",
                  "", true};
        over = true;
      },
      caf::after(watch_period) >> [] {});
    if (stopping.empty() && events.stop)
      if (stopping = events.stop(); !stopping.empty())
        self->send(coordinator, StopRequest{stopping});
    if (!over && stopping.empty() && events.consistency)
      if (auto mode = events.consistency(); !mode.empty())
        switch_in(self, coordinator, mode, events);
    if (!over && stopping.empty())
      wish.look(self, coordinator);
  }
  return result;
}

std::string switch_consistency(const std::string& coordinator,
                               const CertificateSource& certificates,
                               const std::string& mode) {
  ActorConfig config{load_credentials(certificates, operator_name)};
  caf::actor_system system{config};
  caf::scoped_actor self{system};
  return ask_to_switch(self,
                       caf::actor_cast<coordinator_actor>(
                         connect(system, coordinator, connect_deadline_ms)),
                       mode);
}

std::string reshape_job(const std::string& coordinator,
                        const CertificateSource& certificates,
                        const std::string& what) {
  ActorConfig config{load_credentials(certificates, operator_name)};
  caf::actor_system system{config};
  caf::scoped_actor self{system};
  std::string answer;
  std::string refused;
  self
    ->request(caf::actor_cast<coordinator_actor>(
                connect(system, coordinator, connect_deadline_ms)),
              reshape_deadline, ReshapeJob{what})
    .receive([&](const Note& x) { answer = x.line; },
             [&](const caf::error& why) {
               refused = reason_of(why, reshape_deadline);
             });
  if (!refused.empty())
    throw InputError(what + ": " + refused);
  return answer;
}

} // namespace troupe
