#include "actors/certificates/certificate_renewal.hpp"
#include "actors/control/actor_node.hpp"
#include "actors/control/metrics_guard.hpp"
#include "actors/control/refused_members.hpp"
#include "actors/journal/history.hpp"
#include "actors/launch/local_coordinator.hpp"
#include "actors/launch/run_watch.hpp"
#include "actors/launch/standby_watch.hpp"
#include "actors/process/sign_of_life.hpp"
#include "actors/process/stop_status.hpp"
#include "actors/sockets/endpoint.hpp"
#include "actors/voting/proposer.hpp"
#include "actors/voting/voter.hpp"
#include "actors/wire/ends_with_scope.hpp"
#include "kernels/base/error.hpp"
#include "kernels/base/steady_clock.hpp"

#include <atomic>
#include <iostream>
#include <memory>
#include <random>
#include <thread>

// A coordinator with a process of its own, alone or with a standby.

namespace troupe {
namespace {

constexpr std::chrono::seconds publish_deadline{5};
/// How long its observers elsewhere may take to read the end.
constexpr std::chrono::seconds end_deadline{5};
constexpr std::chrono::seconds settle_deadline{1};

/// The port of the coordinator before may still be closing.
std::string publish_again(caf::actor_system& system,
                          const caf::strong_actor_ptr& whom,
                          const std::string& address) {
  const auto deadline = SteadyClock::now() + publish_deadline;
  for (;;)
    try {
      return publish(system, whom, address);
    } catch (const InputError&) {
      if (SteadyClock::now() > deadline)
        throw;
      std::this_thread::sleep_for(std::chrono::milliseconds{20});
    }
}

/// What a launcher starts it looks after, and says.
StandbyWatch::Options standby_options(const RunOptions& options,
                                      const CoordinatorProcess& process) {
  StandbyWatch::Options out;
  out.asked = to_json(options.job);
  out.deadline = std::chrono::milliseconds{options.job.deadlines.join_ms};
  if (process.launched)
    out.deadline = std::chrono::hours{24 * 365};
  else
    out.note = options.events.note;
  return out;
}

/// Opens the journal, alone or as one of its voters. Null: told to stop before
/// it led.
std::shared_ptr<RunJournal>
open_as_one_of(caf::actor_system& system, const RunOptions& options,
               const CoordinatorProcess& process,
               const std::shared_ptr<TlsContext>& tls,
               std::shared_ptr<Proposer>& proposer, EndsWithScope& voter,
               const std::shared_ptr<StandbyWatch>& standby) {
  const auto job_id = make_job_id();
  const auto asked = to_json(options.job);
  if (process.voters.empty())
    return std::make_shared<RunJournal>(
      open_journal(options.journal, true, job_id, asked));
  ProposerOptions how;
  how.voters = process.voters;
  how.own = process.voter;
  how.seed = std::random_device{}();
  how.own_voter =
    spawn_voter(system, options.journal,
                {refuse_decided(tls),
                 [standby](const std::string& job) { standby->heard_job(job); },
                 [standby](const std::string& address) {
                   standby->heard_coordinator(address);
                 }});
  voter.actor = caf::actor_cast<caf::strong_actor_ptr>(how.own_voter);
  publish_again(system, voter.actor, process.voters.at(process.voter));
  proposer = std::make_shared<Proposer>(system, std::move(how));
  return lead_journal(proposer, job_id, asked, [&] {
    standby->look(proposer->reach(), SteadyClock::now());
    return options.events.stop ? options.events.stop() : std::string{};
  });
}

/// Goes on with what the journal says of certificates, and signs from here on.
/// What is written down must not outlive the system that the journal is in.
void lead_certificates(const ActorConfig& config, const RunJournal& journal) {
  const auto known = journal.past ? *journal.past : JobHistory{};
  for (const auto& [member, until] : known.revoked)
    refuse_member(*config.tls(), {member, until});
  if (!config.desk())
    return;
  const auto write = [](JobJournal into, const CertificateRecord& record,
                        std::function<void()> kept) {
    const auto name = to_string(record.name);
    if (record.kind == CertificateRecord::Kind::revoked)
      into.revoked(name, record.until, std::move(kept));
    else
      into.token_used(name, record.nonce, record.until, std::move(kept));
  };
  config.desk()->lead(
    [write, term = journal.term, none = !journal.sink,
     sink = std::weak_ptr<JournalSink>{journal.sink}](
      const CertificateRecord& record, std::function<void()> kept) {
      if (const auto open = sink.lock(); open || none)
        write({open, term}, record, std::move(kept));
    },
    known.used_tokens);
}

/// Where the coordinator before listened, if roles know no other place.
std::string publish_coordinator(caf::actor_system& system,
                                const coordinator_actor& coordinator,
                                const RunJournal& journal,
                                const CoordinatorProcess& process) {
  const auto actor = caf::actor_cast<caf::strong_actor_ptr>(coordinator);
  const bool known = journal.past && !journal.past->address.empty();
  return known && process.voters.empty()
           ? publish_again(system, actor, journal.past->address)
           : publish(system, actor, process.listen);
}

} // namespace

RunResult run_coordinator_process(const RunOptions& options,
                                  const JobData& data,
                                  const CoordinatorProcess& process) {
  // It outlives what writes the journal. A launcher, which takes a second of
  // silence for the end, waits for a minute at most.
  SignOfLife pulse{options.events.note,
                   {"the run is over, its journal is still being written",
                    std::chrono::milliseconds{400}, 150}};
  ActorConfig config{load_credentials(process.certificates, coordinator_name),
                     loss_between_hosts(options.job)};
  const CertificateRenewal renewal{{config.tls(),
                                    {},
                                    [](const std::string& news) {
                                      std::cerr
                                        << "coordinator: " + news + '\n';
                                    },
                                    {}}};
  caf::actor_system system{config};
  caf::scoped_actor self{system};
  EndsWithScope voter;
  std::shared_ptr<Proposer> proposer;
  const auto standby = std::make_shared<StandbyWatch>(
    standby_options(options, process), SteadyClock::now());
  const auto journal = open_as_one_of(system, options, process, config.tls(),
                                      proposer, voter, standby);
  if (!journal)
    return {stop_status(options.events.stop()), standby->stopped(), ""};
  if (journal->past && journal->past->over)
    return {0, "", ""}; // by the one that led
  lead_certificates(config, *journal);
  auto run = options;
  run.revoked = [tls = config.tls()] { return revoked_members(*tls); };
  for (const auto& voter : process.voters)
    if (const auto place = parse_endpoint(voter))
      run.standby_hosts.push_back(place->host);
  std::optional<SignOfLife> starting{
    std::in_place, options.events.note,
    SignOfLife::Options{"the checkpoint is still being read",
                        std::chrono::seconds{10},
                        std::numeric_limits<int>::max()}};
  starting->begin();
  const auto guard = [&](bool leaves_host) {
    return leaves_host ? metrics_guard(config.tls(), options.metrics_token)
                       : metrics_guard();
  };
  auto coordinator = start_with(*journal, [&] {
    return start_coordinator(system, run, data, *journal,
                             proposer ? SteadyClock::now() : options.began,
                             guard);
  });
  starting.reset();
  const auto deposed = std::make_shared<std::atomic<bool>>(false);
  if (proposer)
    proposer->on_deposed([deposed, actor = coordinator.actor] {
      *deposed = true;
      caf::anon_send_exit(actor, caf::exit_reason::kill);
    });
  try {
    const auto address = publish_coordinator(system, coordinator.actor,
                                             *journal, process);
    journal->listens(address, coordinator.metrics_address,
                     coordinator.job->options);
    if (options.events.note)
      options.events.note(listening_prefix + address);
  } catch (...) {
    caf::anon_send_exit(coordinator.actor, caf::exit_reason::user_shutdown);
    throw;
  }
  auto result = watch(self, coordinator.actor, options.events);
  if (process.launched)
    pulse.begin();
  if (*deposed) {
    const auto reach = proposer->reach();
    return {deposed_status,
            reach.lost ? "no majority of voters answers: " + reach.sentence()
                       : "another coordinator has taken over",
            ""};
  }
  if (options.events.over)
    options.events.over(result);
  // It leaves when roles and supervisor elsewhere have read the end. This
  // process's own observer goes first.
  self->monitor(coordinator.actor);
  self->send(coordinator.actor, Detach{});
  self->receive([](const caf::down_msg&) {}, caf::after(end_deadline) >> [] {});
  if (proposer)
    proposer->settle(settle_deadline);
  return result;
}

} // namespace troupe
