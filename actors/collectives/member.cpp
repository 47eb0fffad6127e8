#include "actors/collectives/member.hpp"

#include "actors/collectives/call.hpp"
#include "kernels/base/steady_clock.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

namespace troupe {

namespace {

using Clock = SteadyClock;

/// Bytes that one turn of the scheduler reads: a short one, for others wait.
constexpr uint64_t run_bytes = 1 << 20;
constexpr uint64_t line = 16; // floats; runs begin at cache lines

uint64_t run_length(uint64_t members) {
  const auto length = run_bytes / sizeof(float) / members;
  return std::max(line, length / line * line);
}

// -- the group ----------------------------------------------------------------

/// Where the members meet.
class GroupState {
public:
  static inline const char* name = "collective group";

  GroupState(collective_group_actor::pointer self, CollectiveOptions options)
    : self_(self),
      options_(options),
      members_(options.members),
      living_(options.members),
      pool_(options.members) {
    self_->set_down_handler([this](const caf::down_msg& x) { on_down(x); });
  }

  collective_group_actor::behavior_type make_behavior() {
    return {[this](const Enlist& x) { on(x); },
            [this](const Arrival& x) { on(x); },
            [this](const RunSummed& x) { on(x); },
            [this](caf::tick_atom) { on_tick(); }};
  }

private:
  /// A member's first message; its vectors come behind it.
  void on(const Enlist& enlist) {
    members_[enlist.rank] = enlist.member;
    self_->monitor<caf::message_priority::high>(enlist.member);
  }

  void on(const Arrival& arrival) {
    if (ended_.end != CollectiveEnd::done) {
      self_->send(members_[arrival.rank], MemberOutcome{ended_, {}});
      return;
    }
    auto& call = calls_[arrival.call];
    if (!call) {
      call = pool_.take();
      call->begun = Clock::now();
      arm();
    }
    call->values[arrival.rank] = arrival.values;
    call->came[arrival.rank] = true;
    if (++call->arrived == members_.size())
      begin(call);
  }

  void begin(const std::shared_ptr<CollectiveCall>& call) {
    if (auto why = call->mismatch(); !why.empty()) {
      end_all({CollectiveEnd::mismatch, std::move(why)});
      return;
    }
    const auto count = call->values.front().size();
    const auto length = run_length(members_.size());
    call->prepare(count);
    if (count <= length) {
      call->sum_run(0, count);
      finish(call);
      return;
    }
    call->runs = (count + length - 1) / length;
    size_t next = 0;
    for (uint64_t at = 0; at < count; at += length)
      self_->send(members_[next++ % members_.size()],
                  SumRun{call, at, std::min(count, at + length)});
  }

  void on(const RunSummed& done) {
    if (--done.call->runs == 0 && ended_.end == CollectiveEnd::done)
      finish(done.call);
  }

  void finish(const std::shared_ptr<CollectiveCall>& finished) {
    const auto call = finished; // that may be calls_' own, and ends with it
    const auto sum = call->sum();
    std::erase_if(calls_, [&](const auto& x) { return x.second == call; });
    call->forget();
    for (const auto& member : members_)
      self_->send(member, MemberOutcome{{}, sum});
  }

  /// Ends what is under way and all that follows: only who has come gets an
  /// outcome now, the others when they come.
  void end_all(CollectiveResult why) {
    ended_ = std::move(why);
    for (const auto& [number, call] : calls_)
      for (size_t rank = 0; rank < members_.size(); ++rank)
        if (call->came[rank])
          self_->send(members_[rank], MemberOutcome{ended_, {}});
    calls_.clear();
  }

  void on_down(const caf::down_msg& down) {
    for (size_t rank = 0; rank < members_.size(); ++rank)
      if (members_[rank] && members_[rank].address() == down.source
          && ended_.end == CollectiveEnd::done)
        end_all({CollectiveEnd::aborted,
                 "member " + std::to_string(rank) + " is gone"});
    if (--living_ == 0)
      self_->quit();
  }

  // One timer for all calls, while there are any.
  void arm() {
    if (!std::exchange(armed_, true))
      self_->delayed_send(self_, options_.deadline / 4, caf::tick_atom_v);
  }

  void on_tick() {
    armed_ = false;
    if (calls_.empty())
      return;
    const auto& oldest = *calls_.begin()->second;
    if (Clock::now() - oldest.begun < options_.deadline)
      return arm();
    end_all({CollectiveEnd::late, oldest.missing() + " did not come"});
  }

  collective_group_actor::pointer self_;
  CollectiveOptions options_;
  std::vector<collective_member_actor> members_; ///< by rank
  size_t living_;
  std::map<uint64_t, std::shared_ptr<CollectiveCall>> calls_;
  CallPool pool_;
  CollectiveResult ended_; ///< done: still going
  bool armed_ = false;
};

// -- a member -----------------------------------------------------------------

class MemberState {
public:
  static inline const char* name = "collective member";

  MemberState(collective_member_actor::pointer self, uint32_t rank,
              collective_group_actor group)
    : self_(self), rank_(rank), group_(std::move(group)) {
    self_->monitor(group_);
    self_->set_down_handler([this](const caf::down_msg&) {
      lost_ = {CollectiveEnd::aborted, "the group is gone"};
      while (!waiting_.empty())
        answer({lost_, {}});
    });
  }

  collective_member_actor::behavior_type make_behavior() {
    self_->send(group_, Enlist{rank_, self_});
    return {[this](MemberVector& x) { return on(x); },
            [this](const MemberOutcome& x) { answer(x); },
            [this](const SumRun& x) {
              x.call->sum_run(x.begin, x.end);
              self_->send(group_, RunSummed{x.call});
            }};
  }

private:
  using Promise = caf::typed_response_promise<MemberOutcome>;

  caf::result<MemberOutcome> on(MemberVector& vector) {
    if (lost_.end != CollectiveEnd::done)
      return MemberOutcome{lost_, {}};
    self_->send(group_, Arrival{rank_, calls_++, std::move(vector.values)});
    return waiting_.emplace_back(self_->make_response_promise<Promise>());
  }

  /// Outcomes come in the order of the calls.
  void answer(const MemberOutcome& outcome) {
    if (waiting_.empty())
      return;
    waiting_.front().deliver(outcome);
    waiting_.pop_front();
  }

  collective_member_actor::pointer self_;
  uint32_t rank_;
  collective_group_actor group_;
  uint64_t calls_ = 0;
  std::deque<Promise> waiting_;
  CollectiveResult lost_; ///< done: the group is there
};

} // namespace

std::vector<collective_member_actor>
spawn_collective_members(caf::actor_system& system,
                         const CollectiveOptions& options) {
  auto group =
    system.spawn<collective_group_actor::stateful_impl<GroupState>>(options);
  std::vector<collective_member_actor> members;
  for (uint32_t rank = 0; rank < options.members; ++rank)
    members.push_back(
      system.spawn<collective_member_actor::stateful_impl<MemberState>>(rank,
                                                                        group));
  return members;
}

} // namespace troupe
