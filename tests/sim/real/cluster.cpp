#include "tests/sim/real/cluster.hpp"

#include "actors/control/peer_directory.hpp"
#include "actors/role/link_terms.hpp"
#include "actors/shard/shard.hpp"
#include "actors/stage/stage.hpp"
#include "actors/worker/worker.hpp"
#include "tests/sim/delays.hpp"

#include <nlohmann/json.hpp>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

// Processes, from the first to the last.

namespace troupe::real {
namespace {

/// How long the others may take to go after the end.
constexpr uint64_t leaving = 12'000'000;
/// Steps of the calm end, in which no fault begins: it would come when all is
/// done.
constexpr uint64_t calm_steps = 12;
constexpr uint64_t silence_ms[] = {2'000, 5'000, 8'000};

} // namespace

Cluster::Cluster(Scenario scenario, uint64_t seed, bool trace)
  : scenario_(std::move(scenario)),
    job_(*scenario_.job),
    world_(seed),
    network_(world_),
    job_id_(seed + 1) {
  world_.trace = trace;
  if (seed % 4 == 0 && !scenario_.staged())
    network_.narrow(min_shard_window(job_, 0));
  network_.tap = [this](uint32_t, uint32_t, const caf::message& x) { see(x); };
  network_.tap_sent = [this](const caf::message& x) { see_sent(x); };
  network_.tap_link = [this](uint32_t to, const LinkMessage& message) {
    if (const auto* pulled = std::get_if<Pulled>(&message))
      pulled_epoch_ = std::max(pulled_epoch_, pulled->fence.epoch);
    if (const auto* values = std::get_if<StageValues>(&message))
      see_values(to, *values);
  };
}

Cluster::~Cluster() {
  finished_.emplace(); // nobody is started again
  for (auto& [role, member] : members_)
    if (member.memory >= 0)
      close(member.memory);
}

Cluster::Result Cluster::run(uint32_t faults) {
  start_coordinator();
  start_supervisor();
  for (const auto& role : job_.plan.roles)
    if (role.role.kind == RoleKind::worker || keeps_slices(role.role.kind))
      start(role.role);
  auto& draw = world_.random();
  triggers_.draw(draw, faults, job_.total_steps - calm_steps);
  changes_.draw(draw, scenario_.changes, job_.total_steps * 3 / 4);
  for (sim::Patience patience{world_.now()}; !finished_;) {
    if (!broken_.empty())
      throw Broken(broken_);
    if (!world_.step() || patience.is_over(world_.now(), took_effect_))
      throw Broken("I11: " + sim::Patience::breach(step_, last_note_));
  }
  const auto until = world_.now() + leaving;
  while (world_.now() < until && world_.step())
    ;
  check_end();
  const auto summary = nlohmann::json::parse(finished_->summary);
  return {job_.total_steps,          took_effect_,
          world_.events(),           network_.control_messages(),
          network_.corrupted(),      summary["changes"].size(),
          summary["weights_sha256"], summary["state_sha256"]};
}

void Cluster::check_end() {
  if (finished_->status != 0)
    throw Broken("I11: the run failed: " + finished_->line);
  const auto summary = nlohmann::json::parse(finished_->summary);
  if (summary["steps"] != job_.total_steps)
    throw Broken("I4: " + summary["steps"].dump() + " steps committed");
  if (summary["steps_rolled_back"] != 0)
    throw Broken("I4: steps were rolled back");
  if (scenario_.kind == Scenario::Kind::bounded
      && summary["consistency"]["max_lead"] > job_.options.staleness)
    throw Broken("I5: a lead of " + summary["consistency"]["max_lead"].dump()
                 + " leases");
  if (world_.alive(coordinator_process_))
    throw Broken("I12: the coordinator does not end");
  for (const auto& [role, member] : members_)
    if (member.up && world_.alive(member.process)
        && !world_.paused(member.process))
      throw Broken("I12: " + to_string(role) + " does not end");
  std::vector<uint32_t> processes; // which go as they are forgotten
  for (const auto& [role, member] : members_)
    processes.push_back(member.process);
  for (auto process : processes)
    world_.kill(process, "it stands still, or has not joined");
  world_.kill(supervisor_process_, "all is done");
  const auto left = world_.system().registry().running();
  if (left > 0)
    throw Broken("I12: " + std::to_string(left) + " actors are left");
}

// --- processes --------------------------------------------------------------

void Cluster::start_coordinator() {
  coordinator_process_ = world_.new_process("coordinator", {});
  world_.spawning = coordinator_process_;
  CoordinatorOptions options;
  options.job_id = job_id_;
  options.actor_silence_deadline_ms = silence_ms[job_id_ % 3];
  coordinator_ = caf::actor_cast<caf::strong_actor_ptr>(
    spawn_coordinator(world_.system(), scenario_.job, {}, options, nullptr));
  world_.adopt(coordinator_process_, coordinator_, true);
}

void Cluster::start_supervisor() {
  supervisor_process_ = world_.new_process("supervisor", {});
  auto actor = world_.system().spawn(
    [this](caf::event_based_actor* self) -> caf::behavior {
      self->set_error_handler([](caf::scheduled_actor*, caf::error&) {});
      return {
        [](const Progress&) {},
        [](const DataEpochEnd&) {},
        [this](const Note& x) {
          world_.note("note: " + x.line);
          last_note_ = x.line;
        },
        [this](const Finished& x) { finished(x); },
        [this](const ReplaceRole& x) {
          if (auto known = members_.find(x.role); known != members_.end())
            world_.after(0, [this, process = known->second.process] {
              world_.kill(process, "it is replaced");
            });
        },
        [this](const StartRole& x) {
          world_.after(0, [this, role = x.role] {
            if (finished_ || members_.contains(role))
              return;
            added_.push_back(role);
            tell_coordinator(caf::make_message(Attach{true, added_}));
            start(role);
          });
        },
        [this](const RetireRole& x) { retire(x.role); },
        [this](const caf::error& x) {
          world_.note("refused: " + caf::to_string(x));
        },
        [](const StopRequest&) {},
      };
    });
  supervisor_ = caf::actor_cast<caf::strong_actor_ptr>(actor);
  world_.adopt(supervisor_process_, supervisor_, true);
  tell_coordinator(caf::make_message(Attach{true}));
}

void Cluster::tell_coordinator(caf::message message) {
  network_.seen_from(supervisor_process_, coordinator_)
    ->enqueue(supervisor_, caf::make_message_id(), std::move(message), nullptr);
}

void Cluster::finished(const Finished& finished) {
  world_.note("finished: " + finished.line);
  finished_ = finished;
}

void Cluster::retire(RoleId role) {
  leaving_.insert(role);
  world_.after(sim::retire_deadline, [this, role] {
    if (members_.contains(role))
      world_.kill(members_.at(role).process, "it does not leave");
  });
}

void Cluster::forget(RoleId role) {
  const auto member = members_.extract(role);
  leaving_.erase(role);
  if (!member.empty() && member.mapped().memory >= 0)
    close(member.mapped().memory);
}

void Cluster::start(RoleId role) {
  auto& member = members_[role];
  member.up = false;
  const auto process = member.process = world_.new_process(to_string(role), {});
  world_.on_end(process, [this, role, process](const std::string& how) {
    ended(role, process, how);
  });
  auto& draw = world_.random();
  const auto& time = draw.below(8) == 0 ? sim::slow_boot : sim::boot;
  world_.in_process(process, draw.between(time[0], time[1]),
                    [this, role, process] { say_hello(role, process); });
}

/// What the program does before it has a role: it asks, and dies of silence.
void Cluster::say_hello(RoleId role, uint32_t process) {
  const auto coordinator = network_.seen_from(process, coordinator_);
  auto actor = world_.system().spawn(
    [this, role, process,
     coordinator](caf::event_based_actor* self) -> caf::behavior {
      const auto give_up = [this, process](const caf::error& why) {
        const auto line = caf::to_string(why);
        world_.after(0, [this, process, line] { world_.kill(process, line); });
      };
      self->set_error_handler([](caf::scheduled_actor*, caf::error&) {});
      self
        ->request(caf::actor_cast<coordinator_actor>(coordinator),
                  std::chrono::microseconds{sim::hello_deadline}, Hello{role})
        .then(
          [this, role, process](const JobInfo& info) {
            world_.in_process(process, 0, [this, role, process, info] {
              spawn(role, process, info);
            });
          },
          give_up);
      return {[](caf::tick_atom) {}};
    });
  world_.adopt(process, caf::actor_cast<caf::strong_actor_ptr>(actor), false);
}

void Cluster::spawn(RoleId role, uint32_t process, const JobInfo& info) {
  const auto known = members_.find(role);
  if (known == members_.end() || known->second.process != process)
    return;
  auto& member = known->second;
  member.up = true;
  world_.spawning = process;
  auto& system = world_.system();
  const auto coordinator = network_.seen_from(process, coordinator_);
  RoleContext context;
  context.job = scenario_.job;
  context.data = scenario_.data;
  context.job_id = info.job;
  context.role = role;
  context.incarnation = info.incarnation;
  context.coordinator = caf::actor_cast<coordinator_actor>(coordinator);
  context.metrics = std::make_shared<MetricRegistry>();
  context.links = Network::links(system);
  caf::strong_actor_ptr actor;
  if (role.kind == RoleKind::worker) {
    actor =
      caf::actor_cast<caf::strong_actor_ptr>(spawn_worker(system, context));
  } else {
    if (job_.plan.keeps(role))
      member.store = store_of(role, member);
    if (has_model_part(role.kind))
      actor = caf::actor_cast<caf::strong_actor_ptr>(
        spawn_stage(system, context, member.store));
    else
      actor = caf::actor_cast<caf::strong_actor_ptr>(
        spawn_shard(system, context, member.store));
    context.links->accept(local_name(info.job, role), link_terms(job_, role),
                          actor);
  }
  world_.adopt(process, actor, true);
  coordinator->enqueue(
    actor, caf::make_message_id(),
    caf::make_message(Join{
      job_id_, role, info.incarnation, {}, {}, {}, std::to_string(process)}),
    nullptr);
}

std::shared_ptr<ShardStore> Cluster::store_of(RoleId role, Member& member) {
  if (member.memory < 0)
    member.memory = memfd_create(to_string(role).c_str(), MFD_CLOEXEC);
  std::vector<uint32_t> first;
  for (const auto& known : job_.plan.roles)
    if (known.role == role)
      first = known.slices;
  return std::make_shared<ShardStore>(job_, first, job_id_, member.memory);
}

void Cluster::ended(RoleId role, uint32_t process, const std::string& how) {
  const auto known = members_.find(role);
  if (known == members_.end() || known->second.process != process)
    return;
  if (!finished_ && leaving_.contains(role)) {
    forget(role);
    return;
  }
  auto& member = known->second;
  member.up = false;
  member.store = nullptr;
  if (finished_)
    return;
  world_.in_process(supervisor_process_, 100, [this, role, how] {
    if (finished_)
      return;
    tell_coordinator(caf::make_message(RoleDied{role, how}));
    if (leaving_.contains(role))
      forget(role);
    else
      start(role);
  });
}

} // namespace troupe::real
