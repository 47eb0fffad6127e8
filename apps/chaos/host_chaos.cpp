#include "apps/chaos/host_chaos.hpp"

#include "apps/chaos/run.hpp"

#include <array>
#include <chrono>
#include <thread>

namespace troupe {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::chrono::seconds host_deadline{120};
constexpr milliseconds host_look_period{50};

void last(const ChaosWish& wish) {
  std::this_thread::sleep_for(milliseconds{wish.amount});
}

std::string time_of(const ChaosWish& wish) {
  return std::to_string(wish.amount) + " ms";
}

} // namespace

HostChaos::HostChaos(HostNetwork& network, HostJob& job, const Plan& plan,
                     const std::string& journal)
  : network_(network), job_(job), plan_(plan), journal_(journal, plan) {}

bool HostChaos::wait_for(const std::function<bool()>& condition) {
  const auto end = Clock::now() + host_deadline;
  for (journal_.read(); !condition(); journal_.read()) {
    if (Clock::now() > end || job_.over())
      return false;
    std::this_thread::sleep_for(host_look_period);
  }
  return true;
}

/// Silently, as a host dies; what was on it is started again when it is back.
void HostChaos::kill(size_t host, const ChaosWish& wish) {
  network_.unplug(host);
  job_.kill(host);
  last(wish);
  network_.plug(host);
  job_.start(host);
  say("host " + std::to_string(host) + " died and was back after "
      + time_of(wish));
}

/// Which cable, and which way: a number modulo how many there are.
void HostChaos::cut(size_t host, const ChaosWish& wish) {
  constexpr std::array words{"both ways", "from it", "to it"};
  const auto others = network_.size() - 1;
  const auto other = (host + 1 + wish.cable % others) % network_.size();
  const auto way = wish.cable / others % words.size();
  const auto each = [&](auto change) {
    if (way != 2)
      change(host, other);
    if (way != 1)
      change(other, host);
  };
  each([&](size_t from, size_t to) { network_.block(from, to); });
  last(wish);
  each([&](size_t from, size_t to) { network_.unblock(from, to); });
  say("host " + std::to_string(host) + " was cut off host "
      + std::to_string(other) + ", " + words[way] + ", for " + time_of(wish));
}

void HostChaos::slow(size_t host, const ChaosWish& wish) {
  network_.slow(host);
  last(wish);
  network_.hurry(host);
  say("host " + std::to_string(host) + " had a slow cable for "
      + time_of(wish));
}

void HostChaos::strike(const ChaosWish& wish) {
  const auto host = host_of(plan_, wish.role, network_.size());
  const auto epochs = journal_.epochs();
  if (wish.kind == ChaosKind::host_kill)
    kill(host, wish);
  else if (wish.kind == ChaosKind::host_cut)
    cut(host, wish);
  else
    slow(host, wish);
  faults_.push_back({wish.kind, StepPhase::at_once, wish.role, wish.amount});
  const bool dies = wish.kind == ChaosKind::host_kill;
  const auto began = Clock::now();
  const bool back = wait_for(
    [&] { return journal_.whole() && (!dies || journal_.epochs() > epochs); });
  const auto steps = journal_.steps();
  if (!job_.over()
      && (!back || !wait_for([&] { return journal_.steps() > steps; })))
    failures_.push_back("not all members were back, and at work, within "
                        + std::to_string(host_deadline.count()) + " s of a "
                        + to_string(wish.kind));
  const auto took =
    std::chrono::duration_cast<milliseconds>(Clock::now() - began);
  say("all members are at work after " + std::to_string(took.count()) + " ms");
}

void HostChaos::strike(const Source& next, uint64_t faults,
                       std::optional<uint64_t> steps_after) {
  if (!wait_for([&] { return journal_.whole() && journal_.steps() > 0; }))
    return;
  while (faults_.size() < faults && failures_.empty()) {
    const auto strike = next(faults - faults_.size());
    if (!strike)
      break;
    const auto goal =
      strike->at_step.value_or(journal_.steps() + strike->steps_before);
    if (!wait_for([&] { return journal_.steps() >= goal; }))
      return;
    for (const auto& wish : strike->wishes)
      this->strike(wish);
    done_.push_back(*strike);
  }
  const auto goal = journal_.steps() + steps_after.value_or(0);
  if (steps_after && wait_for([&] { return journal_.steps() >= goal; }))
    job_.terminate();
}

void HostChaos::tell(ChaosEvidence& evidence) {
  evidence.faults = faults_;
  evidence.hosts = network_.size();
  evidence.of_hosts = failures_;
  for (const auto& line : job_.ended())
    evidence.of_hosts.push_back(line);
}

} // namespace troupe
