#include "tests/sim/real/world.hpp"

#include "actors/control/actor_node.hpp"

#include <algorithm>
#include <iostream>
#include <limits>
#include <utility>

namespace troupe::real {
namespace {

World* running_world = nullptr;
/// The clock of each world's beginning, which decides when reports are due.
constexpr uint64_t beginning = 1'000'000'000;
/// What an actor takes for a message.
constexpr uint64_t a_message[2] = {1, 25};
constexpr uint64_t never = std::numeric_limits<uint64_t>::max();

std::unique_ptr<caf::actor_system_config> testing() {
  auto config = std::make_unique<ActorConfig>(Credentials{});
  config->set("caf.scheduler.policy", "testing");
  config->set("caf.metrics-filters.actors.includes",
              std::vector<std::string>{});
  return config;
}

} // namespace

World& World::get() {
  if (running_world == nullptr)
    throw std::logic_error("no simulated world runs");
  return *running_world;
}

uint64_t World::clock() {
  return running_world != nullptr ? running_world->now_ : beginning;
}

World::World(uint64_t seed)
  : random_(seed),
    now_(beginning),
    config_(testing()),
    system_(std::make_unique<caf::actor_system>(*config_)),
    scheduler_(
      dynamic_cast<caf::scheduler::test_coordinator*>(&system_->scheduler())) {
  running_world = this;
  if (scheduler_ == nullptr)
    throw std::logic_error("CAF has no testing scheduler");
  scheduler_->clock().current_time =
    caf::actor_clock::time_point{std::chrono::microseconds{now_}};
}

World::~World() {
  settle = nullptr;
  dies = nullptr;
  for (uint32_t process = 1; process < processes_.size(); ++process) {
    processes_[process].ended = nullptr;
    kill(process, "the world ends");
  }
  processes_.clear();
  while (!queue_.empty()) // what events hold may call
    queue_.pop();
  system_.reset();
  running_world = nullptr;
}

void World::note(const std::string& line) const {
  if (trace)
    std::cout << now_ - beginning << ' ' << line << '\n';
}

void World::at(uint64_t time, std::function<void()> what) {
  queue_.push({std::max(time, now_), order_++, std::move(what)});
}

bool World::step() {
  ++done_;
  if (!queue_.empty() && queue_.top().time <= now_) {
    // The queue gives out const references; the event is popped right after.
    auto what = std::move(const_cast<Event&>(queue_.top()).what);
    queue_.pop();
    what();
  } else if (!run_actor()) {
    const auto next = std::min(queue_.empty() ? never : queue_.top().time,
                               next_timeout());
    if (next == never)
      return false;
    advance(std::max(next, now_ + 1));
  }
  if (settle)
    settle();
  return true;
}

uint64_t World::next_timeout() {
  auto& schedule = scheduler_->clock().schedule;
  while (!schedule.empty() && schedule.begin()->second.f.disposed())
    schedule.erase(schedule.begin());
  if (schedule.empty())
    return never;
  const auto due = schedule.begin()->first.time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(due).count() + 1;
}

void World::advance(uint64_t time) {
  if (time <= now_)
    return;
  const auto by = time - std::exchange(now_, time);
  scheduler_->advance_time(std::chrono::microseconds{by});
}

/// Of those that have messages, and whose process does not stand still.
bool World::run_actor() {
  auto& jobs = scheduler_->jobs;
  std::vector<size_t> ready;
  for (size_t i = 0; i < jobs.size(); ++i) {
    const auto owner = jobs_of_.find(jobs[i]);
    if (owner == jobs_of_.end() || !paused(owner->second))
      ready.push_back(i);
  }
  if (ready.empty())
    return false;
  const auto chosen = ready[random_.below(ready.size())];
  std::rotate(jobs.begin(), jobs.begin() + static_cast<ptrdiff_t>(chosen),
              jobs.begin() + static_cast<ptrdiff_t>(chosen) + 1);
  scheduler_->run_once();
  advance(now_ + random_.between(a_message[0], a_message[1]));
  return true;
}

// --- processes --------------------------------------------------------------

uint32_t World::new_process(std::string name, Ended ended) {
  Process made;
  made.name = std::move(name);
  made.ended = std::move(ended);
  processes_.push_back(std::move(made));
  return static_cast<uint32_t>(processes_.size() - 1);
}

void World::pause(uint32_t process, uint64_t until) {
  auto& time = processes_[process].paused_until;
  time = std::max(time, until);
  at(time, [] {}); // so that time comes to it
}

void World::adopt(uint32_t process, const caf::strong_actor_ptr& actor,
                  bool main) {
  processes_[process].actors.push_back(actor);
  process_of_[actor->id()] = process;
  auto* body = caf::actor_cast<caf::abstract_actor*>(actor);
  if (const auto* job = dynamic_cast<caf::resumable*>(body))
    jobs_of_[job] = process;
  if (main)
    body->attach_functor([this, process](const caf::error& why) {
      if (alive(process))
        after(0,
              [this, process, line = why ? caf::to_string(why) : "it is done"] {
                kill(process, line);
              });
    });
}

uint32_t World::process_of(const caf::strong_actor_ptr& actor) const {
  const auto found = process_of_.find(actor->id());
  return found == process_of_.end() ? 0 : found->second;
}

void World::kill(uint32_t id, const std::string& how) {
  if (!std::exchange(processes_[id].alive, false))
    return;
  note(processes_[id].name + " ends: " + how);
  if (dies)
    dies(id);
  for (const auto& actor : std::exchange(processes_[id].actors, {})) {
    auto* body = caf::actor_cast<caf::abstract_actor*>(actor);
    auto* job = dynamic_cast<caf::resumable*>(body);
    caf::anon_send_exit(caf::actor_cast<caf::actor>(actor),
                        caf::exit_reason::kill);
    auto& jobs = scheduler_->jobs;
    for (int tries = 0; tries < 3; ++tries) {
      const auto at = std::ranges::find(jobs, job);
      if (at == jobs.end())
        break;
      std::rotate(jobs.begin(), at, at + 1);
      scheduler_->run_once();
    }
    process_of_.erase(actor->id());
    jobs_of_.erase(job);
  }
  if (auto ended = std::exchange(processes_[id].ended, nullptr))
    ended(how);
}

void World::in_process(uint32_t process, uint64_t delay,
                       std::function<void()> what) {
  after(delay, [this, process, what = std::move(what)] {
    if (!alive(process))
      return;
    if (paused(process)) // with its turn among those that wait like it
      in_process(process, paused_until(process) - now_, what);
    else
      what();
  });
}

} // namespace troupe::real
