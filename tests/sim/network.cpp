#include "actors/wire/messages.hpp"
#include "tests/sim/delays.hpp"
#include "tests/sim/runtime.hpp"
#include "tests/sim/taps.hpp"

#include <algorithm>
#include <iostream>

// Messages, links and what happens to them.

namespace troupe::sim {
namespace {

constexpr uint64_t link_deadline = 5'000'000;

} // namespace

// --- messages ---------------------------------------------------------------

void Runtime::send_later(Address from, Address to, uint64_t delay,
                         Letter letter) {
  after(delay, [this, from, to, letter = std::move(letter)] {
    if (alive(entities_[from].process))
      send(from, to, letter);
  });
}

void Runtime::answer(Address actor, std::function<void()> what) {
  const auto process = entities_[actor].process;
  in_process(process, 2 * random_.between(pace.latency[0], pace.latency[1]),
             entities_[actor].actor, std::move(what));
}

void Runtime::dial(Address from, uint16_t port, uint64_t deadline,
                   std::function<void(Address found)> done) {
  const auto process = entities_[from].process;
  const auto whom = listens_[port];
  const auto there = entities_[whom].process;
  auto time = 2 * random_.between(pace.latency[0], pace.latency[1]);
  for (auto way : {std::pair{process, there}, std::pair{there, process}})
    if (auto found = blocked_.find(way);
        found != blocked_.end() && found->second > now_)
      time = std::max(time, found->second - now_);
  if (processes_[there].alive && processes_[there].paused)
    time = std::max(time, processes_[there].paused_until - now_);
  const auto at = time < deadline ? whom : 0;
  later(from, std::min(time, deadline), [this, at, done = std::move(done)] {
    done(at != 0 && alive(entities_[at].process) ? at : 0);
  });
}

Stream& Runtime::control(uint32_t from, uint32_t to) {
  return control_[{from, to}];
}

/// Slices that are pushed or pulled pass one another on a link, as far as they
/// like, and nothing else; of one slice all stays in order (SendQueue).
static std::optional<uint32_t> passing_slice(const Letter& letter) {
  if (const auto* push = letter.as<Push>())
    return push->slice;
  if (const auto* pulled = letter.as<Pulled>())
    return pulled->slice;
  return std::nullopt;
}

uint64_t Runtime::arrival(uint32_t from, uint32_t to) {
  auto time = now_ + random_.between(pace.latency[0], pace.latency[1]);
  if (now_ < network.slow_until)
    time += random_.below(network.slow_extra + 1);
  if (auto found = network.slow_ways.find({from, to});
      found != network.slow_ways.end() && now_ < found->second.until)
    time += random_.below(found->second.extra + 1);
  if (auto found = blocked_.find({from, to}); found != blocked_.end())
    time = std::max(time, found->second);
  return time;
}

void Runtime::send(Address from, Address to, Letter letter) {
  if (to == 0 || to >= entities_.size())
    return;
  if (entities_[from].busy) {
    entities_[from].unsaid.emplace_back(
      [this, from, to, letter] { send(from, to, letter); });
    return;
  }
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
      in_process(sender, [this, from, to, sender, letter] {
        if (tap_)
          tap_(sender, sender, letter);
        deliver(from, to, letter);
      });
    });
    return;
  }
  if (taps.sent)
    taps.sent(sender, entity.process, letter);
  schedule(control(sender, entity.process), sender, entity.process, from, to,
           letter);
}

void Runtime::schedule(Stream& stream, uint32_t from_process,
                       uint32_t to_process, Address from, Address to,
                       const Letter& letter) {
  const auto generation = stream.generation;
  ++under_way_[letter.type];
  // Streams stay where they are: maps do not move, links are found again.
  const auto link = entities_[from].link;
  const auto side = link >= 0 ? 1 - entities_[from].side : 0;
  const auto arrives = stream.take(arrival(from_process, to_process),
                                   link >= 0 ? passing_slice(letter)
                                             : std::nullopt);
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
  if (now_ < network.repeat_until && !letter.as<Hello>()
      && !letter.as<JobInfo>() && random_.chance(network.repeat_percent)) {
    at(arrives + random_.below(network.repeat_later), [this, link, hand_over] {
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
  if (entities_[to].busy || !entities_[to].unread.empty()) {
    entities_[to].unread.emplace_back(
      [this, from, to, letter] { give(from, to, letter); });
    return;
  }
  give(from, to, letter);
}

void Runtime::give(Address from, Address to, const Letter& letter) {
  auto actor = entities_[to].actor;
  if (!actor)
    return;
  const auto before = std::exchange(running_, to);
  actor->receive(from, letter);
  running_ = before;
  end_if_quits(std::move(actor));
}

void Runtime::end_if_quits(std::shared_ptr<caf::event_based_actor> actor) {
  if (!actor->quits())
    return;
  const auto id = actor->id();
  const auto process = entities_[id].process;
  const auto why = actor->reason() ? actor->reason().line() : "it is done";
  actor.reset();
  if (auto then = std::exchange(entities_[id].outlived, nullptr)) {
    tell_watchers(id, now_ + random_.between(end_notice[0], end_notice[1]),
                  why);
    entities_[id].actor = nullptr;
    then();
    return;
  }
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
                  last + random_.between(end_notice[0], end_notice[1]), why);
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

void Runtime::keep_links(uint32_t process, const std::set<std::string>& peers) {
  for (size_t i = 0; i < links_.size(); ++i) {
    const auto& ends = links_[i].process;
    if (!links_[i].alive || (ends[0] != process && ends[1] != process))
      continue;
    const auto other = ends[0] == process ? ends[1] : ends[0];
    if (!peers.contains(processes_[other].name))
      end_link(i, "the connection was lost", true);
  }
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
      tell_watchers(address,
                    now_ + random_.between(end_notice[0], end_notice[1]),
                    "the connection was lost");
      entities_[address].watchers = stay;
    }
  return 1;
}

bool Runtime::is_blocked(uint32_t a, uint32_t b) const {
  const auto found = blocked_.find({a, b});
  return found != blocked_.end() && found->second > now_;
}

void Runtime::block(uint32_t a, uint32_t b, uint64_t until) {
  auto& time = blocked_[{a, b}];
  time = std::max(time, until);
}

} // namespace troupe::sim
