#include "actors/shard/slice_chains.hpp"

#include "actors/job/shard_tables.hpp"

#include <algorithm>
#include <utility>

namespace troupe {
namespace {

/// Slices that are copied to this shard at a time: what waits in links and
/// memory stays small.
constexpr size_t max_asking = 8;

} // namespace

SliceChains::Line::Line(const Job& job, const SliceChain& chain, uint32_t shard,
                        ChainState state)
  : place(place_in_chain(chain.replicas, chain.learners, shard)),
    replica(state, place.predecessor.has_value()),
    assembly(job, chain.slice),
    serves(place.head) {
  for (auto follower : place.followers)
    feeds.emplace(follower, Feed{ChainFeed{state.version}, {}});
}

SliceChains::SliceChains(ShardContext& shard, Events events)
  : shard_(shard), events_(std::move(events)) {}

const SliceChains::Line* SliceChains::find(uint32_t slice) const {
  auto found = lines_.find(slice);
  return found == lines_.end() ? nullptr : &found->second;
}

bool SliceChains::forwards(uint32_t slice) const {
  const auto* line = find(slice);
  return line != nullptr && !line->feeds.empty();
}

// --- epochs -----------------------------------------------------------------

void SliceChains::enter_epoch(const Activate& activation) {
  const auto& store = shard_.store;
  chains_ = chains_of(activation, shard_.job.plan);
  lines_.clear();
  to_join_.clear();
  asking_ = 0;
  learning_ = 0;
  size_t heads = 0;
  for (const auto& chain : chains_) {
    const auto slice = chain.slice;
    if (begins_again(activation, chain))
      store->begin_again(slice);
    const bool held = store->holds(slice);
    ChainState state;
    if (held)
      state = {true, store->newest(slice), store->lineage(slice)};
    Line line{shard_.job, chain, shard_.context.role.index, state};
    if (!line.place.any()) {
      if (held) // it has moved away
        shard_.executor->submit([store, slice] { store->drop(slice); });
      continue;
    }
    if (line.place.head) {
      if (!held) // a mistake of who made the chains: nothing is served
        continue;
      ++heads;
      store->set_lineage(slice, activation.fence.epoch);
    } else {
      to_join_.push_back(slice);
    }
    if (line.place.learner)
      ++learning_;
    lines_.emplace(slice, std::move(line));
  }
  shard_.metrics.heads.set(static_cast<double>(heads));
  shard_.metrics.followed.set(static_cast<double>(to_join_.size()));
  end_pause_if_served();
  join_next();
}

/// Asynchronously, a chain that has lost everything goes on from nothing while
/// others keep what they have; the coordinator has said so to the user.
bool SliceChains::begins_again(const Activate& activation,
                               const SliceChain& chain) const {
  return shard_.period.async && !shard_.store->holds(chain.slice)
         && !chain.replicas.empty()
         && chain.replicas.front() == shard_.context.role.index
         && std::ranges::any_of(activation.slices, [&](const SliceState& x) {
              return x.slice == chain.slice && x.newest == 0;
            });
}

void SliceChains::end_pause_if_served() {
  for (const auto& [slice, line] : lines_)
    if (line.place.tail && !line.serves)
      return;
  shard_.pause.end(shard_.self, shard_.context, shard_.gate.active());
}

/// Asks predecessors for what is missing, some slices at a time.
void SliceChains::join_next() {
  while (asking_ < max_asking && !to_join_.empty()) {
    const auto slice = to_join_.front();
    to_join_.pop_front();
    ++asking_;
    const auto& line = lines_.at(slice);
    const auto& state = line.replica.state();
    send(*line.place.predecessor,
         ChainJoin{shard_.gate.active(), shard_.context.role, slice,
                   state.whole, state.version, state.lineage});
  }
}

// --- what followers lack ----------------------------------------------------

void SliceChains::take(const ChainJoin& join) {
  auto found = lines_.find(join.slice);
  if (found == lines_.end()
      || !found->second.feeds.contains(join.follower.index))
    return;
  if (found->second.replica.current())
    answer(join.slice, join);
  else
    found->second.early.push_back(join);
}

void SliceChains::answer(uint32_t slice, const ChainJoin& join) {
  auto& line = lines_.at(slice);
  const auto follower = join.follower.index;
  auto& feed = line.feeds.at(follower);
  const ChainState has{join.whole, join.version, join.epoch};
  const auto lacks = feed.machine.joined(has, line.replica.state());
  if (lacks == ChainFeed::Answer::nothing)
    return;
  events_.joined(slice, follower); // first: whoever has all has this as well
  switch (lacks) {
    case ChainFeed::Answer::nothing:
      return;
    case ChainFeed::Answer::copy:
      copy_to(slice, follower);
      break;
    case ChainFeed::Answer::feed:
      send(
        follower,
        SliceCopy{shard_.gate.active(), slice, join.version, 0, 0, false, {}});
      release(feed, follower);
  }
}

/// Between two updates; synchronous pulls may still want the older version.
void SliceChains::copy_to(uint32_t slice, uint32_t follower) {
  shard_.run(
    [store = shard_.store, slice, &job = shard_.job,
     async = shard_.period.async] {
      return images_of(job, *store, slice, !async);
    },
    [this, slice, follower,
     fence = shard_.gate.active()](std::vector<SliceImage>& images) {
      if (!shard_.gate.is_active(fence))
        return;
      for (const auto& image : images)
        for (auto& part : to_parts(image, slice, &image != &images.back())) {
          part.fence = fence;
          shard_.metrics.copied.add(
            static_cast<double>(part.values.size() * sizeof(float)));
          send(follower, part);
        }
      auto& feed = lines_.at(slice).feeds.at(follower);
      feed.machine.copied(images.back().version);
      release(feed, follower);
    });
}

void SliceChains::release(Line::Feed& feed, uint32_t follower) {
  for (const auto& update : std::exchange(feed.waiting, {}))
    if (update.again || update.number >= feed.machine.from())
      send_update(follower, update);
}

void SliceChains::send_update(uint32_t follower, const ChainUpdate& update) {
  shard_.metrics.forwarded.add(
    static_cast<double>(update.values.size() * sizeof(float)));
  send(follower, update);
  shard_.pass(StepPhase::forward);
}

// --- updates ----------------------------------------------------------------

void SliceChains::order(ChainUpdate update) {
  auto& line = lines_.at(update.slice);
  update.fence = shard_.gate.active();
  update.number = line.replica.order();
  forward(line, update);
}

void SliceChains::repeat(ChainUpdate update) {
  auto& line = lines_.at(update.slice);
  update.fence = shard_.gate.active();
  update.number = line.replica.state().version;
  update.again = true;
  forward_again(line, update);
}

void SliceChains::forward(Line& line, const ChainUpdate& update) {
  for (auto& [follower, feed] : line.feeds)
    switch (feed.machine.ordered(update.number)) {
      case ChainFeed::Verdict::send:
        send_update(follower, update);
        break;
      case ChainFeed::Verdict::wait:
        feed.waiting.push_back(update);
        break;
      case ChainFeed::Verdict::forget:
        std::erase_if(feed.waiting,
                      [](const ChainUpdate& x) { return !x.again; });
    }
}

/// Must not overtake the update itself.
void SliceChains::forward_again(Line& line, const ChainUpdate& update) {
  for (auto& [follower, feed] : line.feeds)
    if (feed.machine.fed())
      send_update(follower, update);
    else
      feed.waiting.push_back(update);
}

void SliceChains::take(const ChainUpdate& update) {
  auto found = lines_.find(update.slice);
  if (found == lines_.end() || !found->second.place.predecessor
      || !fits(update))
    return;
  auto& line = found->second;
  if (update.again) {
    forward_again(line, update);
    events_.apply(update);
    return;
  }
  if (line.replica.offer(update.number) != ChainReplica::Verdict::apply)
    return;
  forward(line, update);
  events_.apply(update);
}

/// Steps are forwarded as sums, leases as they were pushed.
bool SliceChains::fits(const ChainUpdate& update) const {
  return shard_.period.async
           ? shard_.fits_push(update.slice, update.values)
           : troupe::fits(shard_.job, update.slice, update.values);
}

// --- what this shard lacks --------------------------------------------------

void SliceChains::take(const SliceCopy& copy) {
  auto found = lines_.find(copy.slice);
  if (found == lines_.end() || found->second.replica.current())
    return;
  shard_.pass(StepPhase::copy);
  auto& line = found->second;
  if (copy.parts == 0) {
    if (!line.replica.state().whole)
      return;
    line.replica.confirmed();
    shard_.store->set_lineage(copy.slice, shard_.gate.active().epoch);
    became_current(copy.slice, line.replica.state().version);
  } else if (auto image = line.assembly.take(copy)) {
    line.images.push_back(std::move(*image));
    if (copy.more)
      return;
    install(copy.slice, line);
  } else {
    return;
  }
  for (const auto& join : std::exchange(line.early, {}))
    answer(copy.slice, join);
}

/// Updates, and copies to who follows this shard, come after it on the
/// executor.
void SliceChains::install(uint32_t slice, Line& line) {
  const auto version = line.images.back().version;
  line.replica.copied(version);
  for (auto& [follower, feed] : line.feeds)
    feed = {ChainFeed{version}, {}};
  events_.replaced(slice, line.images.back());
  shard_.run(
    [store = shard_.store, slice, &job = shard_.job,
     images = std::exchange(line.images, {}),
     epoch = shard_.gate.active().epoch] {
      put_images(job, *store, slice, images);
      store->set_lineage(slice, epoch);
      return true;
    },
    [this, slice, version, fence = shard_.gate.active()](bool) {
      if (shard_.gate.is_active(fence))
        became_current(slice, version);
    });
}

void SliceChains::became_current(uint32_t slice, uint64_t version) {
  auto& line = lines_.at(slice);
  line.serves = true;
  --asking_;
  events_.current(slice, version);
  if (line.place.tail)
    end_pause_if_served();
  if (line.place.learner && --learning_ == 0)
    shard_.self->send(shard_.context.coordinator,
                      CaughtUp{shard_.gate.active(), shard_.context.role});
  join_next();
}

} // namespace troupe
