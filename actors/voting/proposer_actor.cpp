#include "actors/voting/proposer_actor.hpp"

#include "actors/control/peer_directory.hpp"
#include "actors/control/secure_middleman.hpp"
#include "actors/voting/voter.hpp"
#include "actors/wire/error_line.hpp"
#include "actors/wire/messages.hpp"
#include "strategies/quorum_log.hpp"

#include <algorithm>
#include <deque>
#include <random>
#include <utility>

namespace troupe {
namespace {

constexpr std::chrono::milliseconds tick_period{50};
constexpr std::chrono::seconds answer_deadline{2};
constexpr size_t batch_events = 500;
/// Ticks without a majority after which a leader steps down: 5 s. A standby
/// that it cannot hear of may lead before.
constexpr uint32_t max_silent = 100;
/// The same, after which another may lead.
constexpr uint32_t max_patient = voter_patience / tick_period;
/// Ticks that a vote is given, and up to as many more: two that ask at once
/// part soon. A trial disturbs nobody, and comes with every tick.
constexpr int min_rest = 4;

class ProposerState {
public:
  static inline const char* name = "proposer";

  ProposerState(caf::event_based_actor* self, ProposerOptions options,
                ProposerCalls calls)
    : self_(self),
      options_(std::move(options)),
      calls_(std::move(calls)),
      voters_(options_.voters.size()),
      candidacy_(static_cast<uint32_t>(voters_.size())),
      random_(options_.seed) {
    voters_.at(options_.own).handle = options_.own_voter;
    for (const auto& place : options_.voters)
      reach_.voters.push_back({place, false, {}});
    reach_.voters.at(options_.own).tried = true;
  }

  caf::behavior make_behavior() {
    self_->set_error_handler([](caf::scheduled_actor*, caf::error&) {});
    self_->set_down_handler([this](const caf::down_msg& x) { on(x); });
    self_->send(self_, caf::tick_atom_v);
    return {
      [this](caf::tick_atom) { on_tick(); },
      [this](const Completion& synced) {
        waiting_.push_back({leadership_ ? leadership_->end() : 0, synced.then});
        settle();
      },
      [this](JournalEvent& event, const Completion& synced) {
        write(std::move(event), synced.then);
      },
    };
  }

private:
  struct Other {
    voter_actor handle; ///< null: not connected
    bool dialled = false;
  };
  struct Waiting {
    uint64_t id = 0;
    std::function<void()> synced;
  };
  using Index = uint32_t;

  Index count() const { return static_cast<Index>(voters_.size()); }

  void on_tick() {
    for (Index i = 0; i < count(); ++i)
      if (!voters_[i].handle && !voters_[i].dialled)
        dial(i);
    if (leadership_) {
      const bool led = !leadership_->deposed();
      leadership_->tick(max_silent);
      if (led && leadership_->deposed()) {
        reach_.lost = true;
        tell_reach();
      }
      if (const bool hears = leadership_->heard(max_patient);
          std::exchange(hears_, hears) != hears)
        calls_.hears(hears);
      send_all(true);
      settle();
    } else if (!reading_) {
      stand();
    }
    self_->delayed_send(self_, tick_period, caf::tick_atom_v);
  }

  void dial(Index voter) {
    const auto where = parse_endpoint(options_.voters[voter]);
    voters_[voter].dialled = true;
    self_
      ->request(secure_middleman(self_->system()), answer_deadline,
                caf::connect_atom_v, where->host, where->port)
      .then(
        [this, voter](const caf::node_id&, caf::strong_actor_ptr& found,
                      const std::set<std::string>&) {
          voters_[voter].dialled = false;
          if (!found) {
            found_out(voter, "no voter is there");
            return;
          }
          voters_[voter].handle = caf::actor_cast<voter_actor>(found);
          self_->monitor(voters_[voter].handle);
        },
        [this, voter](const caf::error& failure) {
          voters_[voter].dialled = false;
          found_out(voter, line_of(failure));
        });
  }

  void on(const caf::down_msg& down) {
    for (Index i = 0; i < count(); ++i)
      if (voters_[i].handle && voters_[i].handle.address() == down.source) {
        voters_[i].handle = nullptr;
        found_out(i, "its connection has ended");
      }
  }

  /// `why`: it is not reached; empty: it is.
  void found_out(Index voter, std::string why) {
    auto& one = reach_.voters[voter];
    if (std::exchange(one.tried, true) && one.why == why)
      return;
    one.why = std::move(why);
    tell_reach();
  }

  void tell_reach() {
    if (calls_.reach)
      calls_.reach(reach_);
  }

  void silent(Index voter, const caf::error& failure) {
    if (!voters_[voter].handle) // why is known
      return;
    if (failure == caf::sec::request_timeout)
      found_out(voter, line_of(failure));
    else if (failure == caf::sec::unexpected_message)
      found_out(voter, "no voter is there");
  }

  // --- to lead ---------------------------------------------------------------

  void stand() {
    if (rest_ > 0)
      --rest_;
    else
      ask(candidacy_.begin());
  }

  void ask(Candidacy::Wish wish) {
    for (Index i = 0; i < count(); ++i)
      if (voters_[i].handle)
        self_
          ->request(voters_[i].handle, answer_deadline,
                    AskVote{wish.term, wish.trial})
          .then(
            [this, i, wish](const VoteGiven& x) {
              found_out(i, {});
              answered(i, wish, x);
            },
            [this, i](const caf::error& failure) { silent(i, failure); });
  }

  void answered(Index voter, const Candidacy::Wish& wish, const VoteGiven& x) {
    if (leadership_ || reading_)
      return;
    if (const auto vote = candidacy_.answered(
          voter, wish, {x.granted, x.promised, LogEnd{x.end_term, x.end_id}})) {
      rest_ = min_rest + static_cast<int>(random_() % min_rest);
      ask(*vote);
    }
    if (const auto best = candidacy_.elected()) {
      reading_ = true;
      log_.clear();
      read(*best);
    }
  }

  void read(Index best) {
    if (!voters_[best].handle) {
      give_way();
      return;
    }
    self_
      ->request(voters_[best].handle, answer_deadline,
                ReadLog{log_.empty() ? 0 : log_.back().id})
      .then(
        [this, best](LogPage& page) {
          for (auto& event : page.events)
            log_.push_back(std::move(event));
          if (page.more)
            read(best);
          else
            lead();
        },
        [this](const caf::error&) { give_way(); });
  }

  /// Another attempt will follow.
  void give_way() {
    reading_ = false;
    candidacy_.begin();
  }

  void lead() {
    reading_ = false;
    auto shape = shape_of(log_);
    if (shape.end().term >= candidacy_.term()) {
      give_way();
      return;
    }
    leadership_.emplace(count(), candidacy_.term(), std::move(shape));
    calls_.leads(
      std::make_shared<const Elected>(Elected{candidacy_.term(), log_}));
  }

  // --- while it leads --------------------------------------------------------

  void write(JournalEvent event, std::function<void()> synced) {
    event.id = leadership_->append();
    if (synced)
      waiting_.push_back({event.id, std::move(synced)});
    log_.push_back(std::move(event));
    if (++unfolded_ >= options_.folding.period)
      fold();
    send_all(false);
  }

  void fold() {
    unfolded_ = 0;
    log_ = folded_until(leadership_->decided(), std::move(log_),
                        options_.folding.limits);
    leadership_->fold(shape_of(log_).base.id);
  }

  /// The first one after this number.
  std::vector<JournalEvent>::const_iterator after(uint64_t id) const {
    return std::ranges::upper_bound(log_, id, {}, &JournalEvent::id);
  }

  void send_all(bool idle) {
    for (Index i = 0; i < count(); ++i)
      send(i, idle);
  }

  void send(Index voter, bool idle) {
    if (!voters_[voter].handle)
      return;
    const auto batch = leadership_->next(voter, batch_events, idle);
    if (!batch)
      return;
    AppendLog append{batch->term, batch->after.term, batch->after.id,
                     {},          batch->snapshot,   batch->decided};
    const auto border = after(batch->after.id);
    if (batch->snapshot)
      append.events.assign(log_.cbegin(), border);
    else
      append.events.assign(
        border, border + static_cast<std::ptrdiff_t>(batch->terms.size()));
    self_->request(voters_[voter].handle, answer_deadline, std::move(append))
      .then(
        [this, voter](const LogTaken& x) {
          found_out(voter, {});
          leadership_->answered(voter,
                                {x.led, x.fits, x.have, x.promised, 0, 0});
          settle();
          send(voter, false);
        },
        [this, voter](const caf::error& failure) {
          silent(voter, failure);
          leadership_->lost(voter);
        });
  }

  void settle() {
    if (!leadership_)
      return;
    if (leadership_->deposed()) {
      waiting_.clear();
      if (auto told = std::exchange(calls_.deposed, {}))
        told();
      return;
    }
    while (!waiting_.empty() && waiting_.front().id <= leadership_->decided()) {
      const auto synced = std::move(waiting_.front().synced);
      waiting_.pop_front();
      synced();
    }
  }

  caf::event_based_actor* self_;
  ProposerOptions options_;
  ProposerCalls calls_;
  std::vector<Other> voters_;
  Candidacy candidacy_;
  std::optional<Leadership> leadership_;
  std::vector<JournalEvent> log_; ///< all; its beginning may be folded
  size_t unfolded_ = 0;           ///< events since it was
  bool reading_ = false;          ///< elected, the log not read yet
  bool hears_ = true;             ///< from a majority
  int rest_ = 0;                  ///< ticks until the next attempt
  std::minstd_rand random_;
  std::deque<Waiting> waiting_;
  VotersReach reach_;
};

} // namespace

uint32_t VotersReach::reached() const {
  return static_cast<uint32_t>(std::ranges::count_if(voters, [](const One& x) {
    return x.tried && x.why.empty();
  }));
}

bool VotersReach::all_tried() const {
  return std::ranges::all_of(voters, &One::tried);
}

std::string VotersReach::sentence() const {
  auto out = std::to_string(reached()) + " of " + std::to_string(voters.size())
             + " voters reached";
  for (const auto& one : voters)
    if (!one.tried || !one.why.empty())
      out += "; " + one.place + ": "
             + (one.tried ? one.why : "has not answered yet");
  return out;
}

caf::actor spawn_proposer(caf::actor_system& system, ProposerOptions options,
                          ProposerCalls calls) {
  auto actor =
    system.spawn<caf::stateful_actor<ProposerState, caf::event_based_actor>>(
      std::move(options), std::move(calls));
  return caf::actor_cast<caf::actor>(
    caf::actor_cast<caf::strong_actor_ptr>(actor));
}

} // namespace troupe
