#include "tests/sim/cluster_rough.hpp"

#include "actors/job/snapshot_book.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace troupe::sim {
namespace {

/// All who are told of one signal are told within it.
constexpr uint64_t signals_spread = 20'000;
/// A role whose request to leave is not answered asks again.
constexpr uint64_t leave_again = 1'000'000;
constexpr uint64_t unreadable[2] = {100'000, 3'000'000};
constexpr uint64_t stuck[2] = {1'000'000, 8'000'000};
/// A role that has too little memory lives for so long.
constexpr uint64_t short_life[2] = {1'000, 300'000};
constexpr uint32_t max_in_vain = 2;
constexpr uint64_t long_life_ms = 60'000;

const std::string terminated = "terminated";
constexpr int32_t terminated_status = 143;
const std::string does_not_fit = "does not fit";
/// What a coordinator says that took over when a role had been given up.
const std::string did_not_join = "did not join";

} // namespace

ClusterRough::ClusterRough(Cluster& cluster)
  : cluster_(cluster), runtime_(cluster.runtime_) {}

bool ClusterRough::inject(Fault fault) {
  return fault == Fault::signal_all   ? signal()
         : fault == Fault::unreadable ? hide_journal()
         : fault == Fault::stuck_disk ? slow_journal()
                                      : lack_memory();
}

// --- signals ----------------------------------------------------------------

/// To all, or to some. Replicas are told with launcher or coordinator: alone
/// they would be refused, and several that end may be more than the job bears.
bool ClusterRough::signal() {
  auto& draw = runtime_.random();
  auto& world = cluster_;
  if (world.signalled_ || world.activated_ == 0 || !world.gone_.empty())
    return false;
  world.signalled_ = world.removes_ = true;
  const bool all = draw.chance(50);
  const auto hears = [&] { return all || draw.chance(50); };
  const bool launcher = hears() || world.scenario_.reduces();
  const bool coordinator = hears();
  const auto soon = [&](std::function<void()> what) {
    runtime_.after(draw.below(signals_spread), std::move(what));
  };
  if (launcher)
    soon([&world] {
      world.runtime_.send(world.supervisor_, world.to_coordinator_,
                          letter(StopRequest{terminated}));
    });
  if (coordinator)
    soon([&world, process = world.coordinator_process_,
          address = world.coordinator_.id] {
      ClusterRough{world}.tell_observer(process, address);
    });
  for (const auto& [role, member] : world.members_)
    if (member.up && runtime_.alive(member.process) && hears())
      soon([&world, role = role, process = member.process] {
        ClusterRough{world}.tell_role(role, process);
      });
  runtime_.note(all ? "all are told to end" : "some are told to end");
  return true;
}

void ClusterRough::tell_observer(uint32_t process, Address coordinator) {
  if (!runtime_.alive(process))
    return;
  const auto observer = runtime_.new_endpoint(process,
                                              [](Address, const Letter&) {});
  runtime_.send(observer, coordinator, letter(StopRequest{terminated}));
}

void ClusterRough::tell_role(RoleId role, uint32_t process) {
  const auto known = cluster_.members_.find(role);
  if (cluster_.over_ || !runtime_.alive(process)
      || known == cluster_.members_.end() || known->second.process != process)
    return;
  ask_to_leave(role, process);
}

/// What role/leave.cpp does in a process.
void ClusterRough::ask_to_leave(RoleId role, uint32_t process) {
  auto& world = cluster_;
  const auto done = std::make_shared<bool>(false);
  const auto asker = runtime_.new_endpoint(
    process, [&world, role, process, done](Address, const Letter& letter) {
      if (!std::exchange(*done, true))
        ClusterRough{world}.answered(role, process, letter);
    });
  auto request = letter(LeaveRequest{world.job_id_, role, terminated});
  request.request = 1;
  runtime_.send(asker, world.members_.at(role).coordinator, std::move(request));
  runtime_.after(leave_again, [&world, role, process, done] {
    if (!*done)
      ClusterRough{world}.tell_role(role, process);
  });
}

void ClusterRough::answered(RoleId role, uint32_t process,
                            const Letter& letter) {
  const auto* refused = letter.as<caf::error>();
  if (refused == nullptr)
    return; // it is told to finish
  if (cluster_.late_.contains(role))
    throw Violation("I12", to_string(role)
                             + " asked to leave while the run "
                               "ends, and was refused: "
                             + refused->line());
  runtime_.after(0, [&world = cluster_, process, line = refused->line()] {
    world.runtime_.kill(process, "ends without handing over: " + line);
  });
}

void ClusterRough::heard(uint32_t coordinator, const Letter& letter) {
  if (letter.as<StopRequest>() != nullptr)
    cluster_.told_to_end_ = coordinator;
  const auto* leaves = letter.as<LeaveRequest>();
  if (leaves == nullptr)
    return;
  if (cluster_.told_to_end_ == coordinator)
    cluster_.late_.insert(leaves->role);
  else
    cluster_.late_.erase(leaves->role);
}

// --- disks ------------------------------------------------------------------

/// Nobody can read a journal when its process begins; then all of it is there.
bool ClusterRough::hide_journal() {
  auto& draw = runtime_.random();
  auto& world = cluster_;
  if (!world.scenario_.kept || world.disk_.full)
    return false;
  const auto until = runtime_.now()
                     + draw.between(unreadable[0], unreadable[1]);
  if (!world.scenario_.standby) {
    if (!runtime_.alive(world.coordinator_process_))
      return false;
    world.disk_.unreadable_until = until;
    runtime_.kill(world.coordinator_process_, "killed");
    return true;
  }
  const auto index = static_cast<uint32_t>(draw.below(3));
  const auto process = index < world.candidates_.size()
                         ? world.candidates_[index].process
                         : world.third_voter_;
  if (!runtime_.alive(process))
    return false;
  Cluster::voter_disk(index).unreadable_until = until;
  runtime_.kill(process, "killed");
  return true;
}

bool ClusterRough::slow_journal() {
  auto& draw = runtime_.random();
  const auto until = runtime_.now() + draw.between(stuck[0], stuck[1]);
  if (cluster_.scenario_.standby)
    Cluster::voter_disk(static_cast<uint32_t>(draw.below(3))).stuck_until =
      until;
  else
    cluster_.disk_.stuck_until = until;
  return cluster_.scenario_.kept;
}

// --- memory -----------------------------------------------------------------

/// Once, or each time from now on.
bool ClusterRough::lack_memory() {
  auto& draw = runtime_.random();
  std::vector<RoleId> there;
  for (const auto& [role, member] : cluster_.members_)
    if (member.up && runtime_.alive(member.process)
        && !cluster_.guarded(member.process))
      there.push_back(role);
  if (there.empty())
    return false;
  const auto role = there[draw.below(there.size())];
  if (cluster_.lacking_.empty() && draw.chance(30))
    cluster_.lacking_.insert(role);
  runtime_.kill(cluster_.members_.at(role).process, no_memory);
  return true;
}

void ClusterRough::began(RoleId role) {
  if (!cluster_.lacking_.contains(role))
    return;
  auto& world = cluster_;
  const auto process = world.members_.at(role).process;
  runtime_.after(runtime_.random().between(short_life[0], short_life[1]),
                 [&world, process] {
                   if (!world.over_ && world.runtime_.alive(process))
                     world.runtime_.kill(process, no_memory);
                 });
}

RestartBudget::Life ClusterRough::life_of(RoleId role, const std::string& how) {
  const auto lived_ms = (runtime_.now() - cluster_.members_.at(role).began)
                        / 1'000;
  auto& lacked = cluster_.lacked_[role];
  lacked = how != no_memory ? 0 : lived_ms < long_life_ms ? lacked + 1 : 1;
  if (lacked > max_in_vain)
    throw Violation("I12", to_string(role) + " has had too little memory "
                             + std::to_string(lacked)
                             + " times, and is started again");
  return how == no_memory ? RestartBudget::Life{lived_ms, true, true}
                          : RestartBudget::Life{};
}

// --- the end ----------------------------------------------------------------

void ClusterRough::check_early_end(const Cluster& cluster) {
  const auto& line = cluster.outcome_line_;
  const bool lacks = std::ranges::any_of(cluster.lacked_, [](const auto& role) {
    return role.second == max_in_vain;
  });
  if (lacks
      && (line.find(does_not_fit) != std::string::npos
          || (cluster.scenario_.kept
              && line.find(did_not_join) != std::string::npos)))
    return;
  if (!cluster.signalled_ || cluster.status_ != terminated_status)
    throw Violation("I11", "the run failed: " + line);
  if (cluster.summary_.empty())
    throw Violation("I12", "told to end, it saved nothing: " + line);
  check_saved(cluster);
}

/// What is there after so many steps is what an undisturbed run has then.
void ClusterRough::check_saved(const Cluster& cluster) {
  const auto told = nlohmann::json::parse(cluster.summary_);
  const uint64_t steps = told["steps"];
  if (steps > cluster.job_.total_steps)
    throw Violation("I4", "more steps were made than there are");
  if (told["steps_rolled_back"] != 0 && !cluster.beyond_
      && !cluster.scenario_.reckless)
    throw Violation("I4", "steps were rolled back");
  for (const auto& [role, member] : cluster.members_)
    if (member.store && member.up)
      cluster.check_store(role.index);
  const auto& scenario = cluster.scenario_;
  if (scenario.gradient() != GradientKind::ordered || scenario.has_tables())
    return;
  const auto& job = cluster.job_;
  const auto& values = cluster.oracle_->versions.at(steps);
  Snapshot saved;
  for (const auto& slice : job.plan.slices) {
    const auto* first = values.data() + job.flat_offset(slice);
    SnapshotSlice part;
    part.slice = slice.id;
    part.values = TensorView::copy({first, first + slice.count});
    saved.slices.push_back(std::move(part));
  }
  if (told["weights_sha256"] != weights_sha256(job, saved))
    throw Violation("I3", "other weights than those of an undisturbed run of "
                            + std::to_string(steps) + " steps");
}

} // namespace troupe::sim
