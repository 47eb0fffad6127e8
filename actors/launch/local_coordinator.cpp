#include "actors/launch/local_coordinator.hpp"

#include "actors/coordinator/coordinator.hpp"
#include "actors/job/data_fingerprint.hpp"
#include "actors/job/layout_choice.hpp"
#include "actors/job/memory_need.hpp"
#include "actors/job/mesh_choice.hpp"
#include "actors/journal/history.hpp"
#include "actors/launch/initial_weights.hpp"
#include "actors/page/job_page.hpp"
#include "actors/page/story_feed.hpp"
#include "actors/sockets/endpoint.hpp"
#include "kernels/base/error.hpp"
#include "kernels/base/steady_clock.hpp"
#include "kernels/engine/replica.hpp"
#include "kernels/files/free_memory.hpp"
#include "monitoring/metrics.hpp"

#include <sys/random.h>

#include <algorithm>
#include <cctype>
#include <string_view>

namespace troupe {
namespace {

std::shared_ptr<MetricExporter> make_exporter(const std::string& address,
                                              const MakePageGuard& guard) {
  try {
    return address.empty() ? nullptr
                           : std::make_shared<MetricExporter>(address, guard);
  } catch (const InputError&) {
    throw; // of the guard
  } catch (const std::runtime_error& failure) {
    throw InputError(failure.what());
  }
}

/// Makes it at the address of the coordinator before, so that its observers
/// find it; elsewhere where that one still has it, being stopped, or on another
/// host.
std::shared_ptr<MetricExporter>
make_exporter_again(const std::string& address, const RunOptions& options,
                    const MakePageGuard& guard) {
  try {
    return make_exporter(address, guard);
  } catch (const InputError&) {
    return make_exporter(options.metrics_address, guard);
  }
}

/// Whoever holds the state has at least this much of it: two versions of dense
/// variables, with what the optimizer keeps. One line rather than an end
/// half-way; the coordinator is the first that would need it.
void need_memory_of(const Job& job) {
  const uint64_t copies = 2 * (1 + state_slots(job.options.rule.kind));
  need_memory(job.layout.total * copies * sizeof(float),
              "--model " + job.options.model.substr(0, 60) + ": its "
                + std::to_string(job.layout.total)
                + " parameters with --optimizer " + job.options.optimizer,
              "take a smaller model or a machine with more memory");
  if (const auto why = device_misfit(job); !why.empty())
    throw InputError(why);
}

/// Where pages of coordinators on those hosts are: at the port of this one's.
std::vector<std::string> pages_on(const std::vector<std::string>& hosts,
                                  const MetricExporter& exporter) {
  const auto own = parse_endpoint(exporter.address()).value_or(Endpoint{});
  const auto scheme = exporter.url({});
  std::vector<std::string> out;
  for (const auto& host : hosts)
    if (host != own.host && is_loopback(host) == is_loopback(own.host)
        && std::ranges::all_of(host, [](char letter) {
             return std::isalnum(static_cast<unsigned char>(letter)) != 0
                    || std::string_view{"-_.:"}.find(letter)
                         != std::string_view::npos;
           }))
      out.push_back(scheme.substr(0, scheme.find("://") + 3)
                    + to_string(Endpoint{host, own.port}));
  return out;
}

/// Serves the job's page beside its metrics.
void serve_job_page(const RunOptions& options, const RunJournal& journal,
                    const Job& job, const std::shared_ptr<StoryFeed>& feed,
                    MetricExporter& exporter) {
  JobPage::Options page;
  page.job_id = journal.job;
  page.term = journal.term;
  page.model = job.options.model;
  page.strategy = to_string(job.options.strategy);
  page.read = exporter.reader();
  page.flight = options.flight;
  page.others = pages_on(options.standby_hosts, exporter);
  const JobPage made{std::move(page), feed};
  for (auto& one : made.pages())
    exporter.serve(std::move(one));
}

/// Lays a job out as its coordinator before did, or by what operators take
/// here. Returns why, for people; empty: for no reason of these.
std::string lay_out(JobOptions& wanted, const JobHistory* past,
                    const Dataset& train) {
  if (past) {
    if (!past->layout.empty())
      take_layout(wanted, past->layout);
    return {};
  }
  if (!leaves_layout_open(wanted))
    return {};
  auto alone = wanted;
  alone.resume_from.clear();
  return to_string(choose_layout(wanted, Job{alone, train}));
}

} // namespace

uint64_t make_job_id() {
  uint64_t id = 0;
  if (getrandom(&id, sizeof id, 0) != sizeof id)
    id = static_cast<uint64_t>(
      std::chrono::system_clock::now().time_since_epoch().count());
  return id | 1;
}

LocalCoordinator
start_coordinator(caf::actor_system& system, const RunOptions& options,
                  const JobData& data, const RunJournal& journal,
                  SteadyClock::time_point began, const MakePageGuard& guard) {
  LocalCoordinator started;
  auto wanted = options.job;
  wanted.evaluates = data.eval != nullptr;
  const auto& past = journal.past;
  const bool again = journal.wrote_initial(options.checkpoints);
  const auto starting = past    ? Starting::follows
                        : again ? Starting::again
                                : Starting::anew;
  auto checkpoints = start_checkpoints(options.checkpoints, starting);
  started.lock = checkpoints.lock;
  // One that follows goes on where the first one began.
  wanted.resume_from = past ? past->resume_from : checkpoints.resume_from;
  const auto layout_note = lay_out(wanted, past.get(), *data.train);
  started.job = std::make_shared<const Job>(std::move(wanted), *data.train);
  need_memory_of(*started.job);
  if (!past)
    try_checkpoints(*started.job, options.checkpoints);
  const auto fingerprint = data_fingerprint(*started.job, *data.train);
  if (const auto& initial = options.checkpoints.initial;
      !past && !initial.empty() && !started.job->beginning) {
    auto begun = started.job->options;
    keep_damaged_aside(checkpoints); // one may have the name that it writes
    journal.writes_initial(options.checkpoints);
    begun.resume_from = write_initial_weights(*started.job, options.checkpoints,
                                              fingerprint);
    started.job = std::make_shared<const Job>(std::move(begun), *data.train);
    checkpoints.notes.push_back("begins with the weights of " + initial);
  } else if (!past && !initial.empty()) {
    checkpoints.notes.push_back("--initial-weights " + initial
                                + " is not read: the run goes on from a "
                                  "checkpoint");
  }
  check_resumed(*started.job, fingerprint, checkpoints.notes);
  auto exporter = past
                    ? make_exporter_again(past->metrics_address, options, guard)
                    : make_exporter(options.metrics_address, guard);
  started.metrics_address = exporter ? exporter->address() : std::string{};
  CoordinatorOptions how;
  const auto story = std::make_shared<StoryFeed>();
  how.page = story;
  if (past) {
    for (const auto& point : past->curve)
      story->add_point({point.unix_ms, point.step, point.samples, point.loss});
    for (const auto& event : past->newest)
      story->add_event(event);
  }
  if (exporter)
    serve_job_page(options, journal, *started.job, story, *exporter);
  how.job_id = journal.job;
  how.term = journal.term;
  how.journal = journal.sink;
  how.disk = journal.disk;
  how.journal_notes = journal.notes;
  how.notes = options.notes;
  how.past = past;
  how.began = began;
  how.save = options.save;
  how.checkpoints = options.checkpoints;
  how.min_workers = options.min_workers;
  how.log_every = options.log_every;
  how.data_fingerprint = fingerprint;
  how.data_contents = data_contents(*started.job, *data.train);
  keep_damaged_aside(checkpoints);
  how.first_notes = checkpoints.notes;
  for (const auto& line : {layout_note, started.job->lone_samples(),
                           started.job->dense_for_readers()})
    if (!line.empty() && !past)
      how.first_notes.push_back(line);
  how.allow_faults = options.allow_faults;
  how.restarts = options.restarts;
  if (options.replans)
    how.replan = [job = started.job, asked = options.job](uint32_t devices) {
      const auto choice = choose_mesh(asked, *job, devices);
      return CoordinatorOptions::NewLayout{kept_layout(choice.options),
                                           to_string(choice, devices)};
    };
  how.revoked = options.revoked;
  how.isa = select_isa(options.job.isa);
  started.actor = spawn_coordinator(system, started.job, data, how, exporter);
  return started;
}

} // namespace troupe
