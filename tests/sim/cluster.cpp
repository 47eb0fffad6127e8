#include "tests/sim/cluster.hpp"

#include "actors/links/message_links.hpp"
#include "actors/replica/replica_role.hpp"
#include "actors/shard/shard.hpp"
#include "actors/worker/dense_reduced_worker.hpp"
#include "actors/worker/worker.hpp"
#include "tests/sim/cluster_hosts.hpp"
#include "tests/sim/cluster_rough.hpp"
#include "tests/sim/delays.hpp"
#include "tests/sim/fiber.hpp"
#include "tests/sim/taps.hpp"

#include <nlohmann/json.hpp>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

// Processes, from the first to the last.

namespace troupe::sim {
namespace {

constexpr uint64_t quick_boot[2] = {100, 4'000};
constexpr uint64_t ask_again = 50'000;
constexpr uint64_t longest_stop = 8'000'000;
/// Within it a role of another host goes whose coordinator is gone.
constexpr uint64_t line_ends = 40'000'000;
/// Within it the end of a run is heard of by those who look after its roles.
constexpr uint64_t end_is_known = 100'000;
/// How long the others may take to go after the end.
constexpr uint64_t leaving = 8'000'000;
/// How a role ends that is told to.
const std::string done = "it is done";

} // namespace

Cluster::Cluster(Scenario scenario, uint64_t seed, const Oracle* oracle)
  : ClusterState(*scenario.job, scenario.streams),
    scenario_(std::move(scenario)),
    job_(*scenario_.job),
    oracle_(oracle),
    runtime_(seed),
    job_id_(seed + 1) {
  acknowledged_ = no_leases(job_);
  gradient_kind = scenario_.gradient();
  tasks_may_wait = scenario_.meets();
  on_compute = [this](uint32_t process, uint64_t step,
                      const float* parameters) {
    note_compute(process, step, parameters);
  };
  runtime_.tap([this](uint32_t from, uint32_t to, const Letter& letter) {
    on_message(from, to, letter);
  });
  taps.sent = [this](uint32_t from, uint32_t to, const Letter& letter) {
    if (leads(from))
      note_sent(to, letter);
    if (scenario_.standby)
      check_sent(from, letter);
  };
  taps.ended = [this](uint32_t process, uint32_t of) {
    if (leads(process) && std::ranges::find(active_, of) != active_.end())
      left_ = activated_;
  };
}

Cluster::~Cluster() {
  on_compute = nullptr;
  taps = {};
  for (auto& [role, member] : members_)
    if (member.memory >= 0)
      close(member.memory);
}

Cluster::Result Cluster::run(uint32_t faults) {
  if (scenario_.standby)
    start_standby();
  else
    start_coordinator();
  supervisor_process_ = runtime_.new_process("supervisor", false,
                                             [](const std::string&) {});
  supervisor_ = runtime_.new_endpoint(
    supervisor_process_, [this](Address by, const Letter& letter) {
      if (letter.as<Finished>() && !(over_ && scenario_.rough))
        finisher_ = runtime_.process_of(by);
      supervise(letter);
    });
  supervisor_system_ = std::make_unique<caf::actor_system>(supervisor_process_);
  to_coordinator_ = line_to_coordinator(*supervisor_system_,
                                        {RoleKind::coordinator, 0},
                                        coordinator_)
                      .id;
  runtime_.send(supervisor_, to_coordinator_,
                letter(Attach{scenario_.hosts == 0}));
  for (const auto& role : job_.plan.roles)
    if (role.role.kind == RoleKind::worker || role.role.kind == RoleKind::shard)
      start(role.role);
  plan_faults(faults);
  for (Patience patience{runtime_.now()}; !over_;) {
    if (!runtime_.step() || patience.is_over(runtime_.now(), took_effect_))
      throw Violation("I11", Patience::breach(step_, last_note_));
    if (!computed_wrong_.empty())
      throw Violation("I3", computed_wrong_);
  }
  const auto ended = runtime_.now();
  while (runtime_.alive(coordinator_process_)
         && runtime_.now() < ended + leaving && runtime_.step())
    ;
  const auto left = runtime_.now(); // who joined too late hears of it now
  const auto until = left + 2 * hello_deadline
                     + (scenario_.kept ? max_away + longest_stop : 0)
                     + (scenario_.hosts > 0 || scenario_.rough ? line_ends : 0);
  while (runtime_.now() < until && runtime_.step())
    ;
  if (oracle_ != nullptr)
    check_end();
  return {job_.total_steps,  took_effect_, changed_, switched_, ended,
          runtime_.events(), beyond_};
}

// --- processes --------------------------------------------------------------

int Cluster::new_memory(RoleId role) {
  return memfd_create(to_string(role).c_str(), MFD_CLOEXEC);
}

void Cluster::start(RoleId role) {
  auto& member = members_[role];
  member.up = false;
  const auto process = runtime_.new_process(to_string(role),
                                            role.kind == RoleKind::worker, {});
  member.process = process;
  member.began = runtime_.now();
  roles_[process] = role;
  memory_of_[std::to_string(process)] = member.memories;
  runtime_.on_end(process, [this, role, process](const std::string& how) {
    ended(role, process, how);
  });
  if (scenario_.hosts > 0)
    ClusterHosts{*this}.block_newcomer();
  const bool quick = role.kind == RoleKind::shard && quick_.erase(role.index);
  const auto& time = quick                             ? quick_boot
                     : runtime_.random().below(8) == 0 ? slow_boot
                                                       : boot;
  runtime_.after(runtime_.random().between(time[0], time[1]),
                 [this, role, process] {
                   if (runtime_.alive(process))
                     say_hello(role, process);
                 });
}

void Cluster::say_hello(RoleId role, uint32_t process) {
  const auto greeted = scenario_.standby ? who_leads() : coordinator_;
  if (!greeted
      || (scenario_.kept && !runtime_.alive(runtime_.process_of(greeted.id)))) {
    runtime_.after(ask_again, [this, role, process] {
      if (runtime_.alive(process))
        say_hello(role, process);
    });
    return;
  }
  const auto loader = runtime_.new_endpoint(
    process, [this, role, process, greeted](Address, const Letter& letter) {
      auto known = members_.find(role);
      if (known == members_.end() || known->second.process != process
          || known->second.up)
        return;
      if (const auto* info = letter.as<JobInfo>())
        spawn(role, *info, greeted);
    });
  runtime_.send(loader, greeted.id, letter(Hello{role}));
  runtime_.after(hello_deadline, [this, role, process] {
    auto known = members_.find(role);
    if (runtime_.alive(process)
        && (known == members_.end() || !known->second.up))
      runtime_.kill(process, "the coordinator does not answer");
  });
}

void Cluster::spawn(RoleId role, const JobInfo& info,
                    const coordinator_actor& from) {
  auto& member = members_.at(role);
  member.up = true;
  member.system = std::make_unique<caf::actor_system>(member.process);
  RoleContext context;
  context.job = scenario_.job;
  context.data = scenario_.data;
  context.job_id = info.job;
  context.role = role;
  context.incarnation = info.incarnation;
  context.coordinator = line_to_coordinator(*member.system, role, from);
  context.metrics = std::make_shared<MetricRegistry>();
  context.links = std::make_shared<MessageLinks>(member.process);
  member.coordinator = context.coordinator.id;
  runtime_.spawning(member.process);
  Address actor = 0;
  if (role.kind == RoleKind::worker && scenario_.meets()) {
    context.own_process = true;
    context.groups = std::make_shared<SimulatedGroups>(
      replica_links_, member.process, scenario_.job);
  }
  if (role.kind == RoleKind::worker && scenario_.reduces()) {
    actor = scenario_.kind == Scenario::Kind::replicas
              ? spawn_replica(*member.system, context).id
              : spawn_dense_reduced_worker(*member.system, context).id;
  } else if (role.kind == RoleKind::worker) {
    actor = spawn_worker(*member.system, context).id;
  } else {
    if (member.memory < 0)
      member.memory = new_memory(role);
    std::vector<uint32_t> first;
    for (const auto& known : job_.plan.roles)
      if (known.role == role)
        first = known.slices;
    member.store = std::make_shared<ShardStore>(job_, first, job_id_,
                                                member.memory);
    actor = spawn_shard(*member.system, context, member.store).id;
    runtime_.accept(member.process, actor);
  }
  runtime_.send(actor, context.coordinator.id,
                letter(Join{job_id_,
                            role,
                            info.incarnation,
                            {},
                            {},
                            {},
                            std::to_string(member.process)}));
  ClusterRough{*this}.began(role);
}

void Cluster::ended(RoleId role, uint32_t process, const std::string& how) {
  byte_links_.ended(process);
  replica_links_.ended(process);
  auto known = members_.find(role);
  if (known == members_.end() || known->second.process != process)
    return;
  auto& member = known->second;
  if (leaving_.contains(role)) {
    forget(role);
    return;
  }
  if (how == done) { // its state is looked at when all have ended
    runtime_.after(end_is_known, [this, role, process] {
      if (!over_) // who told it so has died before it told others
        ended(role, process, "it has ended");
    });
    return;
  }
  member.up = false;
  member.store = nullptr;
  if (over_)
    return;
  if (gone_.contains(role)) {
    forget(role);
    return;
  }
  const auto life = ClusterRough{*this}.life_of(role, how);
  const auto verdict = budget_.died(role, how, life);
  runtime_.after(100, [this, role, verdict] {
    if (!verdict.restart) {
      runtime_.send(supervisor_, to_coordinator_,
                    letter(GiveUp{verdict.reason}));
      return;
    }
    if (scenario_.hosts == 0)
      runtime_.send(
        supervisor_, to_coordinator_,
        letter(RoleDied{role, verdict.reason, {}, 0, verdict.left}));
    if (leaving_.contains(role))
      forget(role);
    else if (!over_)
      start(role);
  });
}

void Cluster::forget(RoleId role) {
  auto member = members_.extract(role);
  if (!member.empty() && member.mapped().memory >= 0)
    close(member.mapped().memory);
}

void Cluster::supervise(const Letter& letter) {
  if (const auto* progress = letter.as<Progress>()) {
    if (progress->step > job_.total_steps)
      throw Violation("I4", "step " + std::to_string(progress->step)
                              + " is committed, which no run comes to");
    // A coordinator that follows knows what the one before was told.
    if (scenario_.kind == Scenario::Kind::replicas && !scenario_.kept
        && !scenario_.standby)
      replicas_.counted(progress->step, [this](uint32_t process) {
        return runtime_.alive(process);
      });
    budget_.committed(progress->step);
  } else if (const auto* replace = letter.as<ReplaceRole>()) {
    if (members_.contains(replace->role))
      runtime_.kill(members_.at(replace->role).process, "it is replaced");
  } else if (const auto* wanted = letter.as<StartRole>()) {
    if (members_.contains(wanted->role)) // the message may come again
      return;
    added_.push_back(wanted->role);
    runtime_.send(supervisor_, to_coordinator_,
                  troupe::sim::letter(Attach{true, added_}));
    start(wanted->role);
  } else if (const auto* retire = letter.as<RetireRole>()) {
    leaving_.insert(retire->role);
    runtime_.after(retire_deadline, [this, role = retire->role] {
      if (members_.contains(role))
        runtime_.kill(members_.at(role).process, "it does not leave");
    });
  } else if (const auto* told = letter.as<StopRequest>()) {
    runtime_.send(supervisor_, to_coordinator_, troupe::sim::letter(*told));
  } else if (const auto* finished = letter.as<Finished>()) {
    if (over_ && scenario_.rough)
      return; // of a coordinator that took over when all had gone
    over_ = true;
    status_ = finished->status;
    outcome_line_ = finished->line;
    summary_ = finished->summary;
    if (status_ == 0) {
      const auto summary = nlohmann::json::parse(summary_);
      changed_ = static_cast<uint32_t>(summary["changes"].size());
      switched_ =
        static_cast<uint32_t>(summary["consistency"]["switches"].size());
    }
    runtime_.note("finished: " + finished->line);
    if (oracle_ == nullptr)
      record_end();
  } else if (const auto* note = letter.as<Note>()) {
    runtime_.note(note->line);
    last_note_ = note->line;
  } else if (letter.as<caf::error>() != nullptr) {
    runtime_.note("refused: " + letter.as<caf::error>()->line());
  }
}

void Cluster::record_end() {
  auto& last = recorded.versions.emplace_back(job_.layout.total);
  const auto& store = *members_.at({RoleKind::shard, 0}).store;
  for (const auto& slice : job_.plan.slices)
    if (!slice.sparse())
      std::copy_n(
        job_.plan.on_shards(slice.id) ? store.values(slice.id, job_.total_steps)
                                      : shown_.at(slice.id).data(),
        slice.count,
        last.begin() + static_cast<ptrdiff_t>(job_.flat_offset(slice)));
  recorded.record_tables(job_, job_.total_steps, store);
  const auto summary = nlohmann::json::parse(summary_);
  recorded.weights_sha256 = summary["weights_sha256"];
  recorded.state_sha256 = summary["state_sha256"];
}

} // namespace troupe::sim
