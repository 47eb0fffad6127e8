#include "tests/sim/runtime.hpp"

#include "actors/messages.hpp"

#include <algorithm>
#include <iostream>
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
  behavior_(*this, letter);
  sender_ = 0;
}

void event_based_actor::down(sim::Address source, const std::string& why) {
  if (on_down_)
    on_down_({{{source}}, error{sec::runtime_error, why}});
}

} // namespace caf

namespace troupe::sim {
namespace {

Runtime* running = nullptr;
/// How soon a process notices that a connection of its own has ended.
constexpr uint64_t notice[2] = {50, 3'000};
constexpr uint64_t link_deadline = 5'000'000;

} // namespace

uint64_t Random::next() {
  auto x = state_ += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

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
  entities_.clear(); // actors still call
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
  // Of what it has sent, all or nothing arrives.
  const bool loses = random_.chance(50);
  for (size_t i = 0; i < links_.size(); ++i)
    if (links_[i].alive
        && (links_[i].process[0] == id || links_[i].process[1] == id))
      end_link(i, "its process ended", loses);
  uint64_t last = now_;
  for (auto& [ends, stream] : control_)
    if (ends.first == id) {
      if (loses)
        ++stream.generation;
      else
        last = std::max(last, stream.last);
    } else if (ends.second == id) {
      ++stream.generation;
    }
  for (auto address : processes_[id].actors) {
    tell_watchers(address, last + random_.between(notice[0], notice[1]),
                  "its process ended");
    auto actor = std::exchange(entities_[address].actor, nullptr);
    actor.reset();
    entities_[address].handler = nullptr;
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

uint32_t Runtime::process_of(Address address) const {
  return entities_[address].process;
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

void Runtime::tell_watchers(Address target, uint64_t time,
                            const std::string& why) {
  for (auto watcher : std::exchange(entities_[target].watchers, {}))
    at(time, [this, watcher, target, why] {
      in_process(entities_[watcher].process, [this, watcher, target, why] {
        if (auto actor = entities_[watcher].actor) {
          actor->down(target, why);
          end_if_quits(std::move(actor));
        }
      });
    });
}

// --- messages ---------------------------------------------------------------

void Runtime::send_later(Address from, Address to, uint64_t delay,
                         Letter letter) {
  after(delay, [this, from, to, letter = std::move(letter)] {
    if (alive(entities_[from].process))
      send(from, to, letter);
  });
}

Runtime::Stream& Runtime::control(uint32_t from, uint32_t to) {
  return control_[{from, to}];
}

uint64_t Runtime::arrival(Stream& stream, uint32_t from, uint32_t to) {
  auto time = now_ + random_.between(pace.latency[0], pace.latency[1]);
  if (now_ < slow_until_)
    time += random_.below(slow_extra_ + 1);
  if (auto found = blocked_.find({from, to}); found != blocked_.end())
    time = std::max(time, found->second);
  return stream.last = std::max(stream.last, time);
}

void Runtime::send(Address from, Address to, Letter letter) {
  if (to == 0 || to >= entities_.size())
    return;
  const auto sender = entities_[from].process;
  const auto& entity = entities_[to];
  if (entity.link >= 0) {
    auto& link = links_[entity.link];
    const auto side = entity.side;
    if (!link.alive || link.process[side] != sender)
      return;
    // It answers on the same link.
    schedule(link.stream[side], sender, link.process[1 - side],
             link.proxy[1 - side], link.actor[1 - side], letter);
    return;
  }
  if (entity.process == sender) {
    at(now_, [this, from, to, sender, letter = std::move(letter)] {
      in_process(sender,
                 [this, from, to, letter] { deliver(from, to, letter); });
    });
    return;
  }
  schedule(control(sender, entity.process), sender, entity.process, from, to,
           letter);
}

void Runtime::schedule(Stream& stream, uint32_t from_process,
                       uint32_t to_process, Address from, Address to,
                       const Letter& letter) {
  const auto arrives = arrival(stream, from_process, to_process);
  const auto generation = stream.generation;
  ++under_way_[letter.type];
  // Streams stay where they are: maps do not move, links are found again.
  const auto link = entities_[from].link;
  const auto side = link >= 0 ? 1 - entities_[from].side : 0;
  auto hand_over = [this, from_process, to_process, from, to, letter] {
    in_process(to_process, [this, from_process, to_process, from, to, letter] {
      if (tap_)
        tap_(from_process, to_process, letter);
      deliver(from, to, letter);
    });
  };
  at(arrives, [this, link, side, from_process, to_process, generation, letter,
               hand_over] {
    --under_way_[letter.type];
    const auto& by = link >= 0 ? links_[link].stream[side]
                               : control(from_process, to_process);
    if (by.generation == generation)
      hand_over();
  });
  if (now_ < repeat_until_ && !letter.as<Hello>() && !letter.as<JobInfo>()
      && random_.chance(repeat_percent_)) {
    ++repeated_;
    at(arrives + random_.below(repeat_later_), [this, link, hand_over] {
      if (link < 0 || links_[link].alive) // of a dead link nothing is read
        hand_over();
    });
  }
}

void Runtime::deliver(Address from, Address to, const Letter& letter) {
  if (trace && !letter.as<Completion>() && !letter.as<MetricsReport>()
      && !letter.as<caf::tick_atom>()) {
    const auto& by = entities_[from];
    const auto sender = by.link < 0 ? by.process
                                    : links_[by.link].process[1 - by.side];
    std::cout << now_ << ' ' << processes_[sender].name << " -> "
              << processes_[entities_[to].process].name << ' '
              << letter.type->name << ' ';
    letter.type->print(std::cout, letter.value.get());
    std::cout << '\n';
  }
  if (entities_[to].handler) {
    auto handler = entities_[to].handler;
    handler(from, letter);
    return;
  }
  auto actor = entities_[to].actor;
  if (!actor)
    return;
  actor->receive(from, letter);
  end_if_quits(std::move(actor));
}

void Runtime::end_if_quits(std::shared_ptr<caf::event_based_actor> actor) {
  if (!actor->quits())
    return;
  const auto process = entities_[actor->id()].process;
  const auto why = actor->reason() ? actor->reason().line() : "it is done";
  actor.reset();
  kill(process, why);
}

uint64_t Runtime::under_way(const Type* type) const {
  auto found = under_way_.find(type);
  return found == under_way_.end() ? 0 : found->second;
}

void Runtime::note(const std::string& line) {
  if (trace)
    std::cout << now_ << " * " << line << '\n';
}

// --- links ------------------------------------------------------------------

void Runtime::accept(uint32_t process, Address target) {
  processes_[process].main = target;
}

void Runtime::link(uint32_t process, uint32_t peer, Address target,
                   Linked done) {
  auto there = now_ + random_.between(pace.latency[0], pace.latency[1]);
  auto back = there + random_.between(pace.latency[0], pace.latency[1]);
  for (auto way : {std::pair{process, peer}, std::pair{peer, process}})
    if (auto found = blocked_.find(way); found != blocked_.end())
      back = std::max(back, found->second);
  if (processes_[peer].paused)
    back = std::max(back, processes_[peer].paused_until);
  const bool late = back > now_ + link_deadline;
  at(late ? now_ + link_deadline : back,
     [this, process, peer, target, done = std::move(done), late] {
       if (!processes_[process].alive)
         return;
       const auto main = processes_[peer].main;
       if (late || !processes_[peer].alive || main == 0) {
         done(0, late ? "no answer in time" : "connection refused");
         return;
       }
       Link made;
       made.process[0] = process;
       made.process[1] = peer;
       made.actor[0] = target;
       made.actor[1] = main;
       for (int side = 0; side < 2; ++side) {
         made.proxy[side] = new_address(made.process[side]);
         entities_.back().link = static_cast<int64_t>(links_.size());
         entities_.back().side = side;
       }
       const auto proxy = made.proxy[0];
       links_.push_back(made);
       done(proxy, {});
     });
}

void Runtime::end_link(size_t id, const std::string& why, bool loses) {
  for (int side = 0; side < 2; ++side) {
    auto& stream = links_[id].stream[1 - side]; // towards this side
    if (loses)
      ++stream.generation;
    const auto last = loses ? now_ : std::max(now_, stream.last);
    tell_watchers(links_[id].proxy[side],
                  last + random_.between(notice[0], notice[1]), why);
  }
  links_[id].alive = false;
}

size_t Runtime::cut_links(uint32_t a, uint32_t b) {
  size_t count = 0;
  for (size_t i = 0; i < links_.size(); ++i) {
    const auto& ends = links_[i].process;
    if (links_[i].alive
        && ((ends[0] == a && ends[1] == b) || (ends[0] == b && ends[1] == a))) {
      end_link(i, "the connection was lost", true);
      ++count;
    }
  }
  return count;
}

size_t Runtime::cut_control(uint32_t a, uint32_t b) {
  if (!control_.contains({a, b}) && !control_.contains({b, a}))
    return 0;
  ++control(a, b).generation;
  ++control(b, a).generation;
  for (auto process : {a, b})
    for (auto address : std::vector{processes_[process].actors}) {
      const auto other = process == a ? b : a;
      std::set<Address> there;
      for (auto watcher : entities_[address].watchers)
        if (entities_[watcher].process == other)
          there.insert(watcher);
      auto stay = entities_[address].watchers;
      std::erase_if(stay, [&](Address x) { return there.contains(x); });
      entities_[address].watchers = there;
      tell_watchers(address, now_ + random_.between(notice[0], notice[1]),
                    "the connection was lost");
      entities_[address].watchers = stay;
    }
  return 1;
}

void Runtime::block(uint32_t a, uint32_t b, uint64_t until) {
  auto& time = blocked_[{a, b}];
  time = std::max(time, until);
}

void Runtime::slow(uint64_t until, uint64_t extra) {
  slow_until_ = until;
  slow_extra_ = extra;
}

void Runtime::repeat(uint64_t until, uint32_t percent, uint64_t later) {
  repeat_until_ = until;
  repeat_percent_ = percent;
  repeat_later_ = later;
}

} // namespace troupe::sim
