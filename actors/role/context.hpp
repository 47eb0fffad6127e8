#pragma once

#include "actors/compute/fault_trigger.hpp"
#include "actors/job/job.hpp"
#include "actors/process/flight_recorder.hpp"
#include "actors/role/awaited_samples.hpp"
#include "actors/wire/error_line.hpp"
#include "actors/wire/interfaces.hpp"
#include "kernels/base/error.hpp"
#include "kernels/base/steady_clock.hpp"
#include "kernels/engine/executor.hpp"
#include "kernels/files/file_error.hpp"
#include "kernels/files/file_pages.hpp"
#include "strategies/sign_pace.hpp"

#include <chrono>
#include <memory>
#include <string>

namespace troupe {

class GroupMaker;
class LinkMemory;
class MessageLinks;

/// What a role's actor is given when it is spawned. Everything shared is
/// immutable or thread-safe.
struct RoleContext {
  std::shared_ptr<const Job> job;
  JobData data;
  uint64_t job_id = 0;
  RoleId role;
  uint64_t incarnation = 0;
  coordinator_actor coordinator;
  std::shared_ptr<MetricRegistry> metrics;
  bool own_process = false; ///< then it also reports CAF's metrics and memory
  std::shared_ptr<GroupMaker> groups{}; ///< of workers that meet
  /// How workers and shards reach peers elsewhere; null: there are none.
  std::shared_ptr<MessageLinks> links{};
  /// What peers on this host are lent; null where there is none.
  std::shared_ptr<LinkMemory> memory() const;
  std::shared_ptr<FaultTrigger> faults = std::make_shared<FaultTrigger>(false);
  /// Whether it waits for samples that others read.
  std::shared_ptr<AwaitedSamples> awaited = std::make_shared<AwaitedSamples>();
  /// Keeps what the role did last; null: nobody asked for it.
  std::shared_ptr<FlightRecorder> flight{};
  /// Something that ends now, began then or so many seconds ago.
  void record(Activity activity, SteadyClock::time_point begin,
              uint64_t step) const {
    if (flight)
      flight->record(activity, begin, SteadyClock::now(), step);
  }
  void record(Activity activity, double seconds, uint64_t step) const {
    if (!flight)
      return;
    const auto end = SteadyClock::now();
    const auto spent = std::chrono::duration_cast<SteadyClock::duration>(
      std::chrono::duration<double>{seconds});
    flight->record(activity, end - spent, end, step);
  }
  /// Between two signs of life of a process, as the coordinator wishes.
  uint64_t sign_ms = usual_sign_ms;
  /// Of a process of its own: it tells what is the process's; else another role
  /// there does.
  bool reports_process = true;
};

/// Says a line on the error stream of a process of the role's own; in a process
/// with others, whose run shows its progress there, nothing is said.
void tell(const RoleContext& context, const std::string& line);

/// Has what the role does kept in a folder; empty: nowhere. A disk that is full
/// costs the recorder, with a line, not the role.
void record_in(const std::string& folder, RoleContext& context);

/// Makes the executor of a role's device: threads_per_device threads.
std::shared_ptr<Executor> make_role_executor(const RoleContext& context);

/// What an actor ends for that could not go on. A file or samples that are
/// wrong are so the next time, too; those that cannot be had now may be had
/// then.
inline caf::error why_it_ends(const InputError& failure) {
  const bool may_pass = dynamic_cast<const FileError*>(&failure) != nullptr
                        || dynamic_cast<const NoRoomError*>(&failure) != nullptr
                        || dynamic_cast<const NoSamplesError*>(&failure)
                             != nullptr;
  return may_pass ? caf::make_error(caf::sec::runtime_error,
                                    std::string{failure.what()})
                  : bad_input(failure.what());
}

/// Runs `work` on the executor, then `then(result)` in the actor's context. An
/// exception of `work` ends the actor with its message as exit reason.
/// Completion: `then` is called by the actor's Completion handler, never after
/// the actor has ended.
template <class Self, class Work, class Then>
void run_on(Executor& executor, Self* self, Work work, Then then,
            TaskSize size = TaskSize::any) {
  auto handle = caf::actor_cast<caf::strong_actor_ptr>(self);
  executor.submit(
    [handle, self, work = std::move(work), then = std::move(then)]() mutable {
      Completion done;
      try {
        auto result = std::make_shared<decltype(work())>(work());
        done.then = [then = std::move(then), result] { then(*result); };
      } catch (const InputError& failure) {
        done.then = [self, why = why_it_ends(failure)] { self->quit(why); };
      } catch (const std::exception& failure) {
        std::string line = failure.what();
        done.then = [self, line] {
          self->quit(caf::make_error(caf::sec::runtime_error, line));
        };
      }
      caf::anon_send(caf::actor_cast<caf::actor>(handle), std::move(done));
    },
    size);
}

/// What a role says of itself at each sign of life.
MetricsReport sign_of(const RoleContext& context);

/// What a role reports of itself now.
MetricsReport measure(caf::actor_system& system, const RoleContext& context);

/// Sends a sign of life to the coordinator, and asks for a tick, whose handler
/// calls this again. A process of its own can be stopped, or cut off, alone: it
/// is heard four times as often as its metrics are sent.
template <class Self>
void report_metrics(Self* self, const RoleContext& context) {
  const std::chrono::milliseconds period{context.own_process ? context.sign_ms
                                                             : actor_sign_ms};
  const auto now = SteadyClock::now().time_since_epoch();
  if (!context.own_process || now % (4 * period) < period)
    self->send(context.coordinator, measure(self->system(), context));
  else
    self->send(context.coordinator, sign_of(context));
  self->delayed_send(self, period, caf::tick_atom_v);
}

/// Calls lost(down message) for each monitored actor that ends, but the
/// coordinator, whose loss ends the role.
template <class Self, class Lost>
void on_lost_peer(Self* self, const coordinator_actor& coordinator, Lost lost) {
  self->set_down_handler(
    [self, address = coordinator.address(), lost](const caf::down_msg& down) {
      if (down.source == address && down.reason == caf::sec::invalid_argument)
        self->quit(down.reason); // it is refused, with a line
      else if (down.source == address)
        self->quit(caf::make_error(caf::sec::remote_lookup_failed,
                                   "lost the coordinator"));
      else
        lost(down);
    });
}

/// Sets the handlers that CAF's defaults get wrong: a lost coordinator ends
/// the role; other down messages and errors are not fatal.
template <class Self>
void guard_role(Self* self, const coordinator_actor& coordinator) {
  self->monitor(coordinator);
  on_lost_peer(self, coordinator, [](const caf::down_msg&) {});
  self->set_error_handler([](caf::scheduled_actor*, caf::error&) {});
  self->set_exit_handler(
    [self](const caf::exit_msg& exit) { self->quit(exit.reason); });
}

} // namespace troupe
