#include "tests/sim/replica_links.hpp"

#include "actors/replica/stream_terms.hpp"
#include "kernels/collective/shared_reducer.hpp"
#include "tests/sim/delays.hpp"

#include <algorithm>

namespace troupe::sim {
namespace {

const std::string late = "no link in time";
constexpr uint64_t form_deadline = 10'000'000;

std::pair<uint64_t, uint64_t> key_of(const Fence& fence) {
  return {fence.term, fence.epoch};
}

} // namespace

struct ReplicaLinks::Memory {
  Memory(uint32_t members)
    : control(SharedReducer::control_bytes(members)), arrays(members) {
    SharedReducer::prepare(control.data(), members);
  }
  SharedSegment control;
  std::vector<std::shared_ptr<FlatArrays>> arrays;
};

namespace {

/// What a member keeps as long as its group; ends the links that nobody else
/// has.
struct Held {
  std::shared_ptr<void> memory;
  std::vector<int> ends;

  ~Held() {
    if (auto* links = ByteLinks::find())
      for (auto end : ends)
        if (end >= 0)
          links->close(end);
  }
};

} // namespace

void ReplicaLinks::form(uint32_t process, std::shared_ptr<const Job> job,
                        GroupWish wish, Done done) {
  for (const auto& place : std::list{places_})
    if (place->process == process)
      fail(place, "another epoch takes its place");
  auto made = std::make_shared<Forming>();
  made->process = process;
  made->job = std::move(job);
  made->done = std::move(done);
  for (const auto& member : wish.members)
    made->processes.push_back(static_cast<uint32_t>(std::stoul(member.links)));
  made->ends.assign(wish.members.size(), -1);
  made->wish = std::move(wish);
  auto& known = memories_[key_of(made->wish.fence)];
  made->memory = known.lock();
  if (!made->memory)
    made->memory =
      std::make_shared<Memory>(static_cast<uint32_t>(made->processes.size()));
  known = made->memory;
  made->memory->arrays[made->rank()] = made->wish.arrays;
  const auto others = places_;
  places_.push_back(made);
  auto& runtime = Runtime::get();
  for (const auto& other : others)
    if (other->wish.fence == made->wish.fence)
      meet(made, other);
  for (auto peer : made->processes)
    if (!runtime.alive(peer))
      runtime.after(runtime.random().between(end_notice[0], end_notice[1]),
                    [this, made] { fail(made, "a member is gone"); });
  runtime.after(form_deadline, [this, made] { fail(made, late); });
  finish(made);
}

/// Both are at their doors; the way there and back takes its time.
void ReplicaLinks::meet(const Place& a, const Place& b) {
  auto& runtime = Runtime::get();
  const auto there = runtime.arrival(a->process, b->process);
  const auto back = runtime.arrival(b->process, a->process);
  runtime.at(std::max(there, back) + 1, [this, a, b] {
    auto& runtime = Runtime::get();
    for (const auto& x : {a, b})
      if (!runtime.alive(x->process)
          || std::ranges::find(places_, x) == places_.end())
        return;
    link(a, b);
  });
}

void ReplicaLinks::link(const Place& a, const Place& b) {
  auto& links = *ByteLinks::find();
  const auto [first, second] = links.connect(a->process, b->process);
  a->ends[b->rank()] = first;
  b->ends[a->rank()] = second;
  for (const auto& [own, peer, end] :
       {std::tuple{a, b->rank(), first}, std::tuple{b, a->rank(), second}})
    links.watch(end, [this, own = own, peer = peer] {
      if (own->done)
        return fail(own, "member " + std::to_string(peer) + " ended its link");
      Runtime::get().in_process(own->process, 0, own, [own, peer] {
        own->wish.on_down(peer,
                          "member " + std::to_string(peer) + " ended its link");
      });
    });
  finish(a);
  finish(b);
}

void ReplicaLinks::finish(const Place& place) {
  for (uint32_t rank = 0; rank < place->ends.size(); ++rank)
    if (rank != place->rank() && place->ends[rank] < 0)
      return;
  if (place->done)
    answer(place, group_of(*place));
}

void ReplicaLinks::fail(const Place& place, const std::string& why) {
  if (!place->done)
    return;
  auto group = std::make_shared<ReplicaGroup>();
  group->error = why;
  for (uint32_t rank = 0; why == late && rank < place->ends.size(); ++rank)
    if (rank != place->rank() && place->ends[rank] < 0)
      group->missing.push_back(rank);
  for (auto end : place->ends)
    if (end >= 0)
      ByteLinks::find()->close(end);
  answer(place, std::move(group));
}

void ReplicaLinks::answer(const Place& place,
                          std::shared_ptr<ReplicaGroup> group) {
  std::erase(places_, place);
  auto done = std::exchange(place->done, nullptr);
  if (Runtime::get().alive(place->process))
    done(std::move(group));
}

std::shared_ptr<ReplicaGroup> ReplicaLinks::group_of(Forming& forming) {
  auto group = std::make_shared<ReplicaGroup>();
  auto held = std::make_shared<Held>();
  const auto& wish = forming.wish;
  const auto& memory = forming.memory;
  held->memory = memory;
  group->carriers.assign(forming.ends.size(), streams_ ? "tcp" : "shm");
  if (streams_) {
    std::vector<std::unique_ptr<LinkSocket>> sockets;
    for (auto end : forming.ends)
      sockets.push_back(end < 0 ? nullptr : std::make_unique<LinkSocket>(end));
    group->reducer =
      std::make_unique<StreamReducer>(wish.layout, std::move(sockets),
                                      stream_options(*forming.job, wish.fence));
  } else {
    std::vector<std::span<std::byte>> spans;
    for (const auto& arrays : memory->arrays)
      spans.push_back(arrays->segment()->span());
    held->ends = forming.ends;
    group->reducer = std::make_unique<SharedReducer>(memory->control.data(),
                                                     wish.layout, spans);
    group->shares_memory = true;
  }
  group->held = std::move(held);
  return group;
}

void ReplicaLinks::ended(uint32_t process) {
  auto& runtime = Runtime::get();
  for (const auto& place : std::list{places_}) {
    if (place->process == process) {
      place->done = nullptr;
      std::erase(places_, place);
    } else if (std::ranges::find(place->processes, process)
               != place->processes.end()) {
      runtime.after(runtime.random().between(end_notice[0], end_notice[1]),
                    [this, place] { fail(place, "a member is gone"); });
    }
  }
}

} // namespace troupe::sim
