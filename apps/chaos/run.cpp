#include "apps/chaos/run.hpp"

#include "actors/certificates/member_name.hpp"
#include "kernels/base/error.hpp"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <thread>
#include <utility>

namespace troupe {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds start_deadline{60};
constexpr seconds step_deadline{120};
constexpr seconds whole_deadline{30};
constexpr milliseconds phase_deadline{5'000};
constexpr milliseconds look_period{50};
/// What a broken link, or a process that was replaced, takes to be forgotten.
constexpr seconds settle_deadline{5};
constexpr int leave_ms = 5'000;

/// Ends of all links that there may be between roles, and at each one's door
/// one who waits for an epoch that does not come, or for samples.
uint64_t ends_of(const Plan& plan) {
  const auto workers = plan.of_kind(RoleKind::worker).size();
  const auto keepers = plan.of_kind(RoleKind::shard).size()
                       + plan.of_kind(RoleKind::stage).size()
                       + plan.of_kind(RoleKind::tensor).size();
  const auto readers = plan.of_kind(RoleKind::reader).size();
  return 2 * keepers * (workers + keepers) + workers + keepers
         + 2 * readers * workers + readers;
}

milliseconds deadline_of(const ChaosStrike& strike) {
  auto deadline = phase_deadline;
  for (const auto& wish : strike.wishes)
    if (wish.kind == ChaosKind::stop || wish.kind == ChaosKind::full_disk
        || wish.kind == ChaosKind::slow_disk)
      deadline += milliseconds{wish.amount};
  return deadline;
}

bool is_from_outside(const ChaosWish& wish) {
  return is_of_proxy(wish.kind)
         || (wish.kind == ChaosKind::stop
             && wish.role.kind == RoleKind::coordinator);
}

} // namespace

void say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

ChaosRun::ChaosRun(LaunchedJob& job, const Plan& plan,
                   const std::string& journal, FaultProxy* proxy)
  : job_(job),
    chain_(plan.chain),
    paired_(plan.paired),
    link_ends_(ends_of(plan)),
    journal_(journal, plan),
    processes_(job.launcher()),
    waker_(processes_),
    proxy_(proxy) {}

std::optional<RoleProcesses::Holdings> ChaosRun::count_when_whole() {
  const auto end = Clock::now() + whole_deadline;
  for (journal_.read(); !journal_.whole(); journal_.read()) {
    if (Clock::now() > end || job_.over())
      return std::nullopt;
    std::this_thread::sleep_for(look_period);
  }
  processes_.look();
  return processes_.count();
}

/// What the job holds before the first fault: links are made as they are used,
/// so two counts have to agree.
std::optional<RoleProcesses::Holdings> ChaosRun::count_undisturbed() {
  const auto end = Clock::now() + settle_deadline;
  auto held = count_when_whole();
  while (held && Clock::now() < end) {
    std::this_thread::sleep_for(look_period);
    const auto again = count_when_whole();
    if (again == held)
      break;
    held = again;
  }
  return held;
}

/// Counts until nothing is left of what is under way but the links that there
/// may be, or time is up.
std::optional<RoleProcesses::Holdings> ChaosRun::count_settled() {
  const auto end = Clock::now() + settle_deadline;
  for (;;) {
    const auto held = count_when_whole();
    if (!held || !before_ || job_.over())
      return std::nullopt;
    if (Clock::now() > end
        || (held->processes <= before_->processes
            && held->descriptors <= before_->descriptors
            && held->memory_files <= before_->memory_files
            && held->sockets <= before_->sockets + link_ends_))
      return held;
    std::this_thread::sleep_for(look_period);
  }
}

/// Sends one strike; where a phase belongs to another replica, there.
std::vector<FaultAnswer> ChaosRun::send(FaultInjector& injector,
                                        ChaosStrike& strike) {
  std::vector<FaultWish> inside;
  for (const auto& wish : strike.wishes)
    if (!is_from_outside(wish)) {
      inside.push_back({wish.role, wish.phases, wish.after,
                        static_cast<FaultKind>(wish.kind), wish.amount});
      if (wish.kind == ChaosKind::stop)
        waker_.expect(process_of(wish.role), milliseconds{wish.amount});
    }
  processes_.look(); // before several look at what it has found
  std::vector<std::future<FaultAnswer>> outside;
  for (const auto& wish : strike.wishes)
    if (is_from_outside(wish))
      outside.push_back(std::async(std::launch::async, [this, wish] {
        return strike_from_outside(wish);
      }));
  auto answered = injector.inject(inside, deadline_of(strike));
  waker_.forget();
  std::vector<FaultAnswer> answers;
  auto from_inside = answered.begin();
  auto from_outside = outside.begin();
  for (const auto& wish : strike.wishes)
    answers.push_back(is_from_outside(wish) ? (from_outside++)->get()
                                            : *from_inside++);
  return answers;
}

std::string ChaosRun::process_of(RoleId role) const {
  return paired_ && role.kind != RoleKind::coordinator
           ? to_string(MemberName{MemberName::Kind::sharded, role.index})
           : to_string(role);
}

FaultAnswer ChaosRun::strike_from_outside(const ChaosWish& wish) {
  if (wish.kind == ChaosKind::stop)
    return stop_coordinator(wish);
  const auto role = to_string(wish.role);
  if (!proxy_
      || !proxy_->strike(wish.kind, role, milliseconds{wish.amount},
                         phase_deadline))
    return {FaultAnswer::Kind::not_seen,
            "nothing passed a connection of " + role + " in time"};
  return {FaultAnswer::Kind::done,
          "a connection of " + role + " bore " + to_string(wish.kind)};
}

FaultAnswer ChaosRun::stop_coordinator(const ChaosWish& wish) {
  const auto role = to_string(wish.role);
  const auto* process = processes_.playing(role);
  if (!process || !process->signal(SIGSTOP))
    return {FaultAnswer::Kind::refused, role + " is no process of its own"};
  std::this_thread::sleep_for(milliseconds{wish.amount});
  process->signal(SIGCONT);
  return {FaultAnswer::Kind::done, role + " bore stop"};
}

/// The launcher hears it first or last, as like as not.
bool ChaosRun::end_job(const ChaosWish& wish) {
  const bool all = wish.kind == ChaosKind::signal_all;
  if (all)
    std::this_thread::sleep_for(milliseconds{wish.amount});
  processes_.look();
  if (job_.over())
    return false;
  const bool last = all && wish.amount % 2 == 0;
  if (!last)
    job_.terminate();
  if (all)
    processes_.signal_all(SIGTERM);
  if (last)
    job_.terminate();
  ended_by_ = {wish.kind, StepPhase::at_once, wish.role, wish.amount};
  faults_.push_back(*ended_by_);
  return true;
}

void ChaosRun::strike(const Source& next,
                      const std::function<bool(ChaosStrike&)>& redirect,
                      uint64_t faults, std::optional<uint64_t> steps_after) {
  const auto address = job_.address(start_deadline);
  if (proxy_)
    proxy_->lead_to(address.coordinator);
  FaultInjector injector{address.coordinator, address.certificates};
  uint64_t step = injector.wait_for_step(1, step_deadline);
  bool counted = false;
  while (faults_.size() < faults) {
    auto strike = next(faults - faults_.size());
    if (!strike)
      break;
    const auto goal = strike->at_step.value_or(step + strike->steps_before);
    step = injector.wait_for_step(goal, step_deadline);
    if (step < goal)
      return;
    if (!std::exchange(counted, true))
      before_ = count_undisturbed();
    if (const auto& wish = strike->wishes.front(); ends_job(wish.kind)) {
      if (end_job(wish)) {
        say("step " + std::to_string(step) + ": the job bore "
            + to_string(wish.kind));
        done_.push_back(*strike);
      }
      return;
    }
    auto answers = send(injector, *strike);
    for (uint32_t i = 1;
         i < chain_ && answers.front().kind == FaultAnswer::Kind::refused
         && strike->wishes.size() == 1 && redirect(*strike);
         ++i)
      answers = send(injector, *strike);
    bool all = true;
    for (size_t i = 0; i < answers.size(); ++i) {
      const auto& wish = strike->wishes[i];
      const bool done = answers[i].kind == FaultAnswer::Kind::done;
      for (auto phase : wish.phases)
        if (done)
          faults_.push_back({wish.kind, phase, wish.role, wish.amount});
      all = all && done;
      say("step " + std::to_string(step) + ": " + answers[i].line);
      if (answers[i].kind == FaultAnswer::Kind::over)
        return;
    }
    if (all)
      done_.push_back(*strike);
  }
  if (!counted) // all faults were in runs before
    before_ = count_undisturbed();
  after_ = count_settled();
  if (!steps_after)
    return;
  const auto goal = injector.wait_for_step(step, step_deadline) + *steps_after;
  stopped_ = injector.wait_for_step(goal, step_deadline) >= goal
             && !job_.over();
  if (stopped_)
    job_.terminate();
}

void ChaosRun::tell(ChaosEvidence& evidence, const Job& job) {
  evidence.faults.insert(evidence.faults.end(), faults_.begin(), faults_.end());
  evidence.before = before_;
  evidence.after = after_;
  evidence.link_ends = link_ends_;
  evidence.paired = paired_;
  const auto left = processes_.left(leave_ms);
  evidence.left.insert(evidence.left.end(), left.begin(), left.end());
  journal_.read();
  evidence.lacked_memory += journal_.lacked_memory();
  evidence.leaves_of_the_lost =
    evidence.leaves_of_the_lost.value_or(0)
    + journal_.leaves_of_the_lost(job.options.virtual_ranks,
                                  job.goes_by_parts());
}

} // namespace troupe
