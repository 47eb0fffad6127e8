#include "actors/control_line.hpp"

#include "actors/control/secure_middleman.hpp"
#include "actors/peer_directory.hpp"
#include "strategies/place_search.hpp"

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

namespace troupe {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds retry_period{30};
constexpr std::chrono::milliseconds answer_deadline{2'000};
constexpr std::chrono::milliseconds listen_period{250};
constexpr std::chrono::milliseconds silence_deadline{500};
constexpr size_t most_kept = 4096;
constexpr size_t most_asked = 64;

class ControlLineState {
public:
  static inline const char* name = "control line";

  ControlLineState(caf::event_based_actor* self, ControlLineOptions options)
    : self_(self), options_(std::move(options)) {
    places_ = parse_endpoints(options_.address);
    if (places_.empty())
      places_.emplace_back();
    search_ = PlaceSearch{
      {.places = places_.size(), .most_ms = answer_deadline.count()}};
  }

  caf::behavior make_behavior() {
    self_->set_error_handler([](caf::scheduled_actor*, caf::error&) {});
    self_->set_down_handler([this](const caf::down_msg& x) { on(x); });
    self_->set_default_handler(
      [this](caf::scheduled_actor*, caf::message& x) { return pass_on(x); });
    real_ = caf::actor_cast<caf::strong_actor_ptr>(options_.first);
    self_->monitor(caf::actor_cast<caf::actor_addr>(real_));
    self_
      ->request(options_.first, answer_deadline,
                Hello{options_.role, message_revision, true})
      .then(
        [this](const JobInfo& info) {
          job_ = info.job;
          term_ = info.term;
        },
        [](const caf::error&) {}); // it may be another build: not ours to say
    if (places_.size() > 1)
      listen();
    return {[this](caf::tick_atom) { reach(); },
            [this](caf::timeout_atom) { listen(); }};
  }

private:
  struct Said { ///< something, by someone
    caf::strong_actor_ptr sender;
    caf::message message;
  };

  /// Makes its sender known, so that a new coordinator must hear it too.
  static bool introduces(const caf::message& x) {
    return x.match_elements<Join>() || x.match_elements<Attach>()
           || x.match_elements<StopRequest>();
  }
  /// Would be missed, and has no epoch that is over.
  static bool outlives(const caf::message& x) {
    return x.match_elements<LeafReport>() || x.match_elements<GiveUp>()
           || x.match_elements<Trouble>() || x.match_elements<RoleDied>();
  }

  void remember(const Said& said) {
    if (said.message.match_elements<Detach>())
      std::erase_if(introductions_,
                    [&](const Said& x) { return x.sender == said.sender; });
    if (!introduces(said.message))
      return;
    std::erase_if(introductions_, [&](const Said& x) {
      return x.sender == said.sender
             && x.message.types() == said.message.types();
    });
    introductions_.push_back(said);
  }

  caf::skippable_result pass_on(caf::message& message) {
    const auto* element = self_->current_mailbox_element();
    const Said said{element->sender, message};
    remember(said);
    if (real_) {
      if (element->mid.is_request())
        await_answer(element->sender, element->mid);
      real_->enqueue(element->sender, element->mid, message, self_->context());
      return caf::delegated<caf::message>{};
    }
    // Who asks hears that it is away, and asks again.
    if (outlives(message) && !element->mid.is_request()) {
      kept_.push_back(said);
      if (kept_.size() > most_kept)
        kept_.pop_front();
    }
    if (element->mid.is_request())
      return away();
    return caf::delegated<caf::message>{};
  }

  /// Answers come past this actor, so that it does not know which are there.
  void await_answer(const caf::strong_actor_ptr& who, caf::message_id request) {
    asked_.emplace_back(who, request);
    if (asked_.size() > most_asked)
      asked_.pop_front();
  }

  /// One that was answered before drops this.
  void refuse_all() {
    for (const auto& [who, request] : std::exchange(asked_, {}))
      if (who)
        who->enqueue(self_->ctrl(), request.response_id(),
                     caf::make_message(away()), self_->context());
  }

  static caf::error away() {
    return caf::make_error(caf::sec::request_receiver_down,
                           "a restart of the coordinator is under way");
  }

  void on(const caf::down_msg& down) {
    const auto address = [](const caf::strong_actor_ptr& x) {
      return caf::actor_cast<caf::actor_addr>(x);
    };
    const bool asked = asked_whom_ && down.source == address(asked_whom_);
    if (asked)
      asked_whom_ = nullptr; // it will not answer
    if (!real_ || down.source != address(real_)) {
      if (asked)
        later();
      return;
    }
    real_ = nullptr;
    silent_ = false;
    away_since_ = Clock::now();
    search_.begin();
    refuse_all();
    reach();
  }

  /// A process that is stopped, or cut off, closes no connection.
  void listen() {
    if (real_)
      self_
        ->request(caf::actor_cast<coordinator_actor>(real_), silence_deadline,
                  Hello{options_.role, message_revision, true})
        .then(
          [this, asked = real_](const JobInfo&) {
            if (asked == real_)
              silent_ = false;
          },
          [this, asked = real_](const caf::error&) {
            if (asked == real_ && !std::exchange(silent_, true))
              reach();
          });
    self_->delayed_send(self_, listen_period, caf::timeout_atom_v);
  }

  void reach() {
    if (real_ && !silent_)
      return;
    if (!real_ && Clock::now() - away_since_ > options_.deadline) {
      give_up("the coordinator has been away for "
              + std::to_string(options_.deadline.count() / 1000) + " s");
      return;
    }
    // One that is silent must not keep from finding the next.
    const auto [place, patience_ms] = search_.next(silent_);
    patience_ = std::chrono::milliseconds{patience_ms};
    tried_ = Clock::now();
    const auto& where = places_[place];
    self_
      ->request(secure_middleman(self_->system()), patience_,
                caf::connect_atom_v, where.host, where.port)
      .then([this](const caf::node_id&, caf::strong_actor_ptr& found,
                   const std::set<std::string>&) { ask(found); },
            [this](const caf::error&) { failed(); });
  }

  void failed() {
    const auto took = Clock::now() - tried_;
    if (took >= patience_)
      search_.ran_out();
    later();
  }

  void later() { self_->delayed_send(self_, retry_period, caf::tick_atom_v); }

  /// Whether it is the coordinator of this job, and a new one.
  void ask(const caf::strong_actor_ptr& found) {
    if (!found) {
      later();
      return;
    }
    asked_whom_ = found;
    tried_ = Clock::now();
    self_->monitor(caf::actor_cast<caf::actor_addr>(found));
    self_
      ->request(caf::actor_cast<coordinator_actor>(found), patience_,
                Hello{options_.role, message_revision, true})
      .then(
        [this, found](const JobInfo& info) {
          if (std::exchange(asked_whom_, nullptr) == found)
            met(found, info);
        },
        [this, found](const caf::error&) {
          if (asked_whom_ != found)
            return;
          asked_whom_ = nullptr;
          failed();
        });
  }

  void met(const caf::strong_actor_ptr& found, const JobInfo& info) {
    const bool member = options_.role.kind != RoleKind::coordinator;
    if (job_ != 0 && info.job != job_) {
      give_up("another job's coordinator is at " + options_.address);
      return;
    }
    if (info.term < term_ || (real_ && info.term == term_)) {
      later(); // one that was deposed, or this one: none is better
      return;
    }
    if (member && info.term == term_) {
      give_up("the connection to the coordinator is lost");
      return;
    }
    job_ = info.job;
    term_ = info.term;
    if (real_)
      self_->demonitor(caf::actor_cast<caf::actor_addr>(real_));
    real_ = found;
    silent_ = false;
    refuse_all();
    for (const auto& said : introductions_)
      say(said);
    for (const auto& said : std::exchange(kept_, {}))
      say(said);
  }

  void say(const Said& said) {
    real_->enqueue(said.sender, caf::make_message_id(), said.message,
                   self_->context());
  }

  void give_up(const std::string& why) {
    self_->quit(caf::make_error(caf::sec::remote_lookup_failed, why));
  }

  caf::event_based_actor* self_;
  ControlLineOptions options_;
  std::vector<Endpoint> places_; ///< where a coordinator may listen
  PlaceSearch search_{PlaceSearch::Options{}};
  std::chrono::milliseconds patience_{}; ///< with the place tried last
  Clock::time_point tried_;          ///< that place, or the actor that is there
  uint64_t job_ = 0;                 ///< 0: not known yet
  uint64_t term_ = 0;                ///< of the newest coordinator
  caf::strong_actor_ptr real_;       ///< null: away
  bool silent_ = false;              ///< it does not answer
  caf::strong_actor_ptr asked_whom_; ///< whether it is the next one
  Clock::time_point away_since_;
  std::vector<Said> introductions_;
  std::deque<Said> kept_;
  std::deque<std::pair<caf::strong_actor_ptr, caf::message_id>> asked_;
};

} // namespace

coordinator_actor spawn_control_line(caf::actor_system& system,
                                     ControlLineOptions options) {
  auto actor =
    system.spawn<caf::stateful_actor<ControlLineState, caf::event_based_actor>>(
      std::move(options));
  return caf::actor_cast<coordinator_actor>(
    caf::actor_cast<caf::strong_actor_ptr>(actor));
}

} // namespace troupe
