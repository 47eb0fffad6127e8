#include "tests/sim/runtime.hpp"

#include "actors/wire/messages.hpp"
#include "tests/sim/delays.hpp"
#include "tests/sim/fiber.hpp"
#include "tests/sim/taps.hpp"

#include <algorithm>
#include <iostream>
#include <map>
#include <stdexcept>

namespace caf {

sim::Address id_of(const event_based_actor* self) {
  return self->id();
}

bool behavior::operator()(event_based_actor& self,
                          const sim::Letter& letter) const {
  for (const auto& [type, handle] : handlers_)
    if (type == letter.type) {
      handle(self, letter.value.get());
      return true;
    }
  return false;
}

void event_based_actor::receive(sim::Address sender,
                                const sim::Letter& letter) {
  sender_ = sender;
  request_ = letter.request;
  element_.sender = {{sender}};
  message any{letter};
  if (!is_answer(letter) && !behavior_(*this, letter) && on_any_)
    on_any_(this, any);
  sender_ = 0;
  request_ = 0;
}

void event_based_actor::await(uint64_t number, uint64_t deadline_us,
                              std::function<void(const void*)> then,
                              std::function<void(const error&)> failed) {
  awaited_.push_back({number, std::move(then), std::move(failed)});
  sim::Runtime::get().later(id_, deadline_us, [this, number] {
    for (auto i = awaited_.begin(); i != awaited_.end(); ++i)
      if (i->number == number) {
        auto late = std::move(i->failed);
        awaited_.erase(i);
        late(sec::request_timeout);
        return;
      }
  });
}

bool event_based_actor::is_answer(const sim::Letter& letter) {
  const auto* failure = letter.as<error>();
  for (auto i = awaited_.begin(); i != awaited_.end(); ++i)
    if (i->number == letter.answers) {
      auto waits = std::move(*i);
      awaited_.erase(i);
      if (failure != nullptr)
        waits.failed(*failure);
      else
        waits.then(letter.value.get());
      return true;
    }
  return letter.answers != 0; // of a request that is over
}

void event_based_actor::down(sim::Address source, const std::string& why) {
  if (on_down_)
    on_down_({{{source}}, error{sec::runtime_error, why}});
}

} // namespace caf

namespace troupe::sim {
namespace {

Runtime* running = nullptr;

} // namespace

std::string type_name(const std::string& signature) {
  const auto begin = signature.find("T = ") + 4;
  const auto name =
    signature.substr(begin, signature.find_first_of(";]", begin) - begin);
  const auto room = name.rfind("::");
  return room == std::string::npos ? name : name.substr(room + 2);
}

Runtime::Runtime(uint64_t seed) : before_(running), random_(seed) {
  running = this;
}

Runtime::~Runtime() {
  for (auto& entity : entities_)
    graves_.push_back(std::move(entity.actor));
  graves_.clear(); // actors still call
  running = before_;
}

Runtime& Runtime::get() {
  if (running == nullptr)
    throw std::logic_error("no simulated world runs");
  return *running;
}

void Runtime::abandon() {
  running = nullptr;
}

void Runtime::at(uint64_t time, std::function<void()> what) {
  queue_.push({std::max(time, now_), order_++, std::move(what)});
}

bool Runtime::step() {
  if (queue_.empty())
    return false;
  // The queue gives out const references; the event is popped right after.
  auto what = std::move(const_cast<Event&>(queue_.top()).what);
  now_ = queue_.top().time;
  queue_.pop();
  ++done_;
  what();
  return true;
}

// --- processes --------------------------------------------------------------

uint32_t Runtime::new_process(std::string name, bool computes, Ended ended) {
  Process made;
  made.name = std::move(name);
  made.computes = computes;
  made.ended = std::move(ended);
  processes_.push_back(std::move(made));
  return static_cast<uint32_t>(processes_.size() - 1);
}

void Runtime::kill(uint32_t id, const std::string& how) {
  if (!processes_[id].alive)
    return;
  note(processes_[id].name + " ends: " + how);
  processes_[id].alive = false;
  processes_[id].inbox.clear();
  // Of what it has sent on a connection, all or nothing arrives.
  for (size_t i = 0; i < links_.size(); ++i)
    if (links_[i].alive
        && (links_[i].process[0] == id || links_[i].process[1] == id))
      end_link(i, "its process ended", random_.chance(50));
  std::map<uint32_t, uint64_t> last; // by who hears of it after that
  for (auto& [ends, stream] : control_)
    if (ends.first == id) {
      if (random_.chance(50))
        ++stream.generation;
      else
        last[ends.second] = stream.last;
    } else if (ends.second == id) {
      ++stream.generation;
    }
  for (auto address : processes_[id].actors) {
    const auto notice = random_.between(end_notice[0], end_notice[1]);
    for (auto watcher : std::exchange(entities_[address].watchers, {}))
      tell_watcher(watcher, address,
                   std::max(now_, last[entities_[watcher].process]) + notice,
                   "its process ended");
    auto actor = std::exchange(entities_[address].actor, nullptr);
    if (tasks_may_wait) // nothing of it runs any more
      graves_.push_back(std::move(actor));
    actor.reset();
    entities_[address].handler = nullptr;
    entities_[address].unsaid.clear();
    entities_[address].unread.clear();
  }
  if (processes_[id].ended)
    processes_[id].ended(how);
}

void Runtime::pause(uint32_t id, uint64_t until) {
  auto& process = processes_[id];
  if (!process.alive)
    return;
  process.paused = true;
  process.paused_until = std::max(process.paused_until, until);
  at(process.paused_until, [this, id] {
    auto& woken = processes_[id];
    if (!woken.alive || !woken.paused || now_ < woken.paused_until)
      return;
    woken.paused = false;
    while (!processes_[id].inbox.empty() && processes_[id].alive
           && !processes_[id].paused) {
      auto what = std::move(processes_[id].inbox.front());
      processes_[id].inbox.pop_front();
      what();
    }
  });
}

void Runtime::in_process(uint32_t id, std::function<void()> what) {
  if (!processes_[id].alive)
    return;
  if (processes_[id].paused)
    processes_[id].inbox.push_back(std::move(what));
  else
    what();
}

void Runtime::in_process(uint32_t process, uint64_t delay,
                         std::weak_ptr<void> lives,
                         std::function<void()> what) {
  after(delay, [this, process, lives, what = std::move(what)] {
    in_process(process, [lives, what] {
      if (!lives.expired())
        what();
    });
  });
}

uint64_t Runtime::task_time(uint32_t process) {
  const auto& range = processes_[process].computes ? pace.compute : pace.task;
  return random_.between(range[0], range[1]);
}

// --- actors -----------------------------------------------------------------

Address Runtime::new_address(uint32_t process) {
  entities_.emplace_back().process = process;
  return entities_.size() - 1;
}

void Runtime::keep(uint32_t process,
                   std::shared_ptr<caf::event_based_actor> actor) {
  const auto address = actor->id();
  entities_[address].actor = std::move(actor);
  processes_[process].actors.push_back(address);
}

Address Runtime::new_endpoint(uint32_t process, Handler handler) {
  const auto address = new_address(process);
  entities_[address].handler = std::move(handler);
  processes_[process].actors.push_back(address);
  return address;
}

void Runtime::later(Address actor, uint64_t delay, std::function<void()> what) {
  in_process(entities_[actor].process, delay, entities_[actor].actor,
             std::move(what));
}

uint32_t Runtime::process_of(Address address) const {
  return entities_[address].process;
}

void Runtime::holds_up(uint64_t time) {
  auto& entity = entities_[running_];
  entity.busy = true;
  entity.busy_until = std::max(entity.busy_until, now_) + time;
  at(entity.busy_until, [this, actor = running_] {
    in_process(entities_[actor].process, [this, actor] { go_on(actor); });
  });
}

void Runtime::go_on(Address actor) {
  if (!entities_[actor].busy || now_ < entities_[actor].busy_until)
    return;
  entities_[actor].busy = false;
  for (const auto& say : std::exchange(entities_[actor].unsaid, {}))
    say();
  while (!entities_[actor].busy && !entities_[actor].unread.empty()) {
    auto next = std::move(entities_[actor].unread.front());
    entities_[actor].unread.pop_front();
    next();
  }
}

void Runtime::monitor(Address watcher, Address target) {
  if (target == 0 || target >= entities_.size())
    return;
  auto& entity = entities_[target];
  const bool gone = entity.link < 0 ? !processes_[entity.process].alive
                                    : !links_[entity.link].alive;
  entity.watchers.insert(watcher);
  if (gone)
    tell_watchers(target, now_, "it has ended already");
}

void Runtime::demonitor(Address watcher, Address target) {
  if (target != 0 && target < entities_.size())
    entities_[target].watchers.erase(watcher);
}

void Runtime::tell_watchers(Address target, uint64_t time,
                            const std::string& why) {
  for (auto watcher : std::exchange(entities_[target].watchers, {}))
    tell_watcher(watcher, target, time, why);
}

void Runtime::tell_watcher(Address watcher, Address target, uint64_t time,
                           const std::string& why) {
  at(time, [this, watcher, target, why] {
    in_process(entities_[watcher].process, [this, watcher, target, why] {
      if (auto actor = entities_[watcher].actor) {
        if (taps.ended)
          taps.ended(entities_[watcher].process, process_of(target));
        actor->down(target, why);
        end_if_quits(std::move(actor));
      }
    });
  });
}

} // namespace troupe::sim
