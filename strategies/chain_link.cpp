#include "strategies/chain_link.hpp"

#include "strategies/require.hpp"

#include <algorithm>

namespace troupe {

namespace {

/// Of a replica that got a copy: whatever a follower has, it is compared with
/// nothing.
constexpr uint64_t no_lineage = ~uint64_t{0};

} // namespace

ChainPlace place_in_chain(const std::vector<uint32_t>& replicas,
                          const std::vector<uint32_t>& learners,
                          uint32_t shard) {
  ChainPlace place;
  auto at = std::ranges::find(replicas, shard);
  if (at != replicas.end()) {
    place.replica = true;
    place.head = at == replicas.begin();
    place.tail = at + 1 == replicas.end();
    if (!place.head)
      place.predecessor = *(at - 1);
    if (place.tail)
      place.followers = learners;
    else
      place.followers = {*(at + 1)};
    std::erase_if(place.followers, [&](uint32_t x) {
      return place.tail && std::ranges::find(replicas, x) != replicas.end();
    });
  } else if (std::ranges::find(learners, shard) != learners.end()
             && !replicas.empty()) {
    place.learner = true;
    place.predecessor = replicas.back();
  }
  return place;
}

ChainFeed::Verdict ChainFeed::ordered(uint64_t number) {
  strategies::require(number == next_, "updates are ordered one by one");
  ++next_;
  if (stage_ == Stage::fed)
    return Verdict::send;
  if (stage_ == Stage::copying)
    return Verdict::wait;
  forgot_ = forgot_ || next_ - first_ > max_waiting;
  if (!forgot_)
    return Verdict::wait;
  first_ = next_;
  return Verdict::forget;
}

ChainFeed::Answer ChainFeed::joined(const ChainState& follower,
                                    const ChainState& own) {
  if (stage_ != Stage::unknown)
    return Answer::nothing;
  strategies::require(own.version == next_, "all that is ordered is had");
  if (follower.whole && follower.lineage == own.lineage
      && follower.version >= first_ && follower.version <= next_) {
    stage_ = Stage::fed;
    from_ = follower.version;
    return Answer::feed;
  }
  stage_ = Stage::copying;
  return Answer::copy;
}

void ChainFeed::copied(uint64_t version) {
  strategies::require(stage_ == Stage::copying, "a copy that nobody began");
  stage_ = Stage::fed;
  from_ = version;
}

ChainReplica::Verdict ChainReplica::offer(uint64_t number) {
  if (!current_)
    return Verdict::early;
  if (number != state_.version)
    return number < state_.version ? Verdict::duplicate : Verdict::gap;
  ++state_.version;
  return Verdict::apply;
}

uint64_t ChainReplica::order() {
  strategies::require(current_, "only a head orders");
  return state_.version++;
}

void ChainReplica::copied(uint64_t version) {
  state_ = {true, version, no_lineage};
  current_ = true;
}

} // namespace troupe
