#include "actors/control/control_line.hpp"

#include "actors/control/introductions.hpp"
#include "actors/control/peer_directory.hpp"
#include "actors/control/secure_middleman.hpp"
#include "actors/wire/error_line.hpp"
#include "kernels/base/steady_clock.hpp"
#include "strategies/incarnation.hpp"
#include "strategies/place_search.hpp"
#include "strategies/sign_pace.hpp"

#include <algorithm>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace troupe {
namespace {

using Clock = SteadyClock;

constexpr std::chrono::milliseconds usual_sign_period{usual_sign_ms};
constexpr std::chrono::milliseconds greeting_period{30};
constexpr std::chrono::milliseconds answer_deadline{2'000};
/// The same of a host that was cut off: the next try may go another way.
constexpr std::chrono::milliseconds away_deadline{1'200};
constexpr std::chrono::milliseconds silence_deadline{500};
/// Of an answer that may come late.
constexpr std::chrono::milliseconds longest_answer{30'000};
constexpr std::chrono::milliseconds replaced_after{15'000};
constexpr size_t max_kept = 4096;
constexpr size_t max_asked = 64;

class ControlLineState {
public:
  static inline const char* name = "control line";

  ControlLineState(caf::event_based_actor* self, ControlLineOptions options)
    : self_(self), options_(std::move(options)) {
    places_ = parse_endpoints(options_.address);
    if (places_.empty())
      places_.emplace_back();
    const auto usual = options_.hang_up ? away_deadline : answer_deadline;
    search_ = PlaceSearch{{.places = places_.size(),
                           .max_ms = static_cast<uint64_t>(usual.count())}};
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
          belongs_to(info.job, info.term);
          sign_period_ = period_of(info);
          refuse(info);
        },
        [](const caf::error&) {}); // it may be another build: not ours to say
    if (places_.size() > 1 || options_.tell || options_.revoked
        || options_.replace)
      listen();
    return {[this](caf::tick_atom) { reach(); },
            [this](caf::timeout_atom) { listen(); },
            [](const Completion& x) { x.then(); }};
  }

private:
  /// A coordinator that could not say so yet is known by what the role says:
  /// one that was deposed and awakes must not be taken for the next.
  void belongs_to(uint64_t job, uint64_t term) {
    job_ = job;
    term_ = std::max(term_, term);
  }

  /// Would be missed, and has no epoch that is over.
  static bool outlives(const caf::message& x) {
    return x.match_elements<LeafReport>() || x.match_elements<Trouble>()
           || x.match_elements<RoleDied>() || x.match_elements<GiveUp>();
  }

  caf::skippable_result pass_on(caf::message& message) {
    const auto* element = self_->current_mailbox_element();
    const Said said{element->sender, message};
    introductions_.remember(said);
    if (message.match_elements<Join>()) {
      const auto& join = message.get_as<Join>(0);
      belongs_to(join.job, term_of(join.incarnation));
    }
    if (real_) {
      if (element->mid.is_request())
        await_answer(element->sender, element->mid);
      real_->enqueue(element->sender, element->mid, message, self_->context());
      return caf::delegated<caf::message>{};
    }
    // Who asks hears that it is away, and asks again.
    if (outlives(message) && !element->mid.is_request()) {
      kept_.push_back(said);
      if (kept_.size() > max_kept)
        kept_.pop_front();
    }
    if (element->mid.is_request())
      return away();
    return caf::delegated<caf::message>{};
  }

  /// Answers come past this actor, so that it does not know which are there.
  void await_answer(const caf::strong_actor_ptr& who, caf::message_id request) {
    asked_.emplace_back(who, request);
    if (asked_.size() > max_asked)
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
    unanswered_since_.reset();
    unanswered_ = {};
    away_since_ = Clock::now();
    search_.begin();
    refuse_all();
    reach();
  }

  /// A process that is stopped, or cut off, closes no connection. An answer
  /// counts however late it comes: on a busy host all of them may be.
  void listen() {
    if (real_) {
      look_for_answers();
      if (!unanswered_since_)
        unanswered_since_ = Clock::now();
      self_
        ->request(caf::actor_cast<coordinator_actor>(real_),
                  options_.replace
                    ? longest_answer
                    : std::clamp(loss_, answer_deadline, longest_answer),
                  asking())
        .then(
          [this, asked = real_,
           as = introductions_.incarnation()](const JobInfo& info) {
            if (asked == real_)
              heard(info, as);
          },
          [this, asked = real_](const caf::error& why) {
            if (asked != real_ || why == caf::sec::request_timeout)
              return;
            unanswered_ = {};
            look_elsewhere(); // it says itself that it may not lead
          });
    }
    self_->delayed_send(self_, sign_period_, caf::timeout_atom_v);
  }

  void look_for_answers() {
    if (!unanswered_since_)
      return;
    unanswered_ += sign_period_;
    if (options_.replace && unanswered_ >= replaced_after) {
      unanswered_ = {};
      options_.replace(); // a down message follows
    }
    const auto silence = Clock::now() - *unanswered_since_;
    if (options_.hang_up && loss_.count() > 0 && silence >= loss_
        && (silence >= replaced_after || !options_.cut_off
            || options_.cut_off(loss_ / 2))) {
      unanswered_since_.reset();
      options_.hang_up(); // a down message follows
    } else if (silence >= silence_deadline) {
      look_elsewhere();
    }
  }

  void look_elsewhere() {
    if (places_.size() > 1 && !std::exchange(silent_, true))
      reach();
  }

  static std::chrono::milliseconds period_of(const JobInfo& info) {
    return std::chrono::milliseconds{std::max(usual_sign_ms, info.sign_ms)};
  }

  Hello asking() const {
    return {options_.role, message_revision, true,
            options_.tell ? introductions_.incarnation() : 0};
  }

  void refuse(const JobInfo& info) const {
    if (options_.revoked)
      options_.revoked(info.revoked);
  }

  void heard(const JobInfo& info, uint64_t as) {
    refuse(info);
    silent_ = false;
    unanswered_since_.reset();
    unanswered_ = {};
    belongs_to(info.job, info.term);
    loss_ = std::chrono::milliseconds{info.loss_ms};
    sign_period_ = period_of(info);
    if (info.over && options_.tell)
      tell_role(Finish{info.job}); // it may have been left out at the end
    if (!info.refused.empty()) {
      refused(info.refused);
      return;
    }
    if (!info.left_out.empty() && as == introductions_.incarnation())
      come_back(info);
  }

  /// Where its links were the reason, they have to work again.
  void come_back(const JobInfo& info) {
    if (told_ != info.left_out)
      options_.tell(to_string(options_.role) + ": left out of the job ("
                    + info.left_out + "); joins again"
                    + (info.probe.empty() ? "" : " once its links work"));
    told_ = info.left_out;
    if (info.wait_ms > 0 || joining_)
      return;
    if (info.probe.empty() || !options_.probe) {
      join_again();
      return;
    }
    joining_ = true;
    options_.probe(
      info.probe, [this, handle = caf::actor_cast<caf::weak_actor_ptr>(self_)](
                    bool reached) {
        if (auto line = handle.lock())
          caf::anon_send(caf::actor_cast<caf::actor>(line),
                         Completion{[this, reached] { probed(reached); }});
      });
  }

  void probed(bool reached) {
    joining_ = false;
    if (reached && real_)
      join_again();
  }

  /// The role has kept its state: what of it counts is told when it seals.
  void join_again() {
    const auto* said = introductions_.join();
    if (said == nullptr || std::exchange(joining_, true))
      return;
    const auto& join = said->message.get_as<Join>(0);
    self_
      ->request(caf::actor_cast<coordinator_actor>(real_), answer_deadline,
                Hello{options_.role, message_revision, false, join.incarnation,
                      join.host, join.process})
      .then(
        [this](const JobInfo& info) {
          joining_ = false;
          readmitted(info.incarnation);
        },
        [this](const caf::error& why) {
          joining_ = false;
          if (why == caf::sec::invalid_argument)
            refused(line_of(why));
        });
  }

  void readmitted(uint64_t incarnation) {
    introductions_.joins_as(incarnation);
    tell_role(Readmit{job_, incarnation});
    if (real_)
      say(*introductions_.join());
  }

  template <class Message>
  void tell_role(const Message& message) {
    if (const auto* said = introductions_.join())
      said->sender->enqueue(self_->ctrl(), caf::make_message_id(),
                            caf::make_message(message), self_->context());
  }

  void reach() {
    if (real_ && !silent_)
      return;
    if (!real_ && Clock::now() - away_since_ > options_.deadline
        && !(options_.comes && options_.comes())) {
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

  /// Those of a large job ask less often, so that not all are turned away.
  void later() {
    self_->delayed_send(self_,
                        greeting_period * (sign_period_ / usual_sign_period),
                        caf::tick_atom_v);
  }

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
      ->request(caf::actor_cast<coordinator_actor>(found), patience_, asking())
      .then(
        [this, found](const JobInfo& info) {
          if (std::exchange(asked_whom_, nullptr) == found)
            met(found, info);
        },
        [this, found](const caf::error&) {
          if (asked_whom_ != found)
            return;
          asked_whom_ = nullptr;
          // The old connection may still be open at the other end, where
          // answers go then.
          if (options_.hang_up && !real_)
            options_.hang_up();
          failed();
        });
  }

  void met(const caf::strong_actor_ptr& found, const JobInfo& info) {
    const bool member = options_.role.kind != RoleKind::coordinator
                        && options_.role.kind != RoleKind::evaluator;
    if (job_ != 0 && info.job != job_) {
      give_up("another job's coordinator is at " + options_.address);
      return;
    }
    if (!info.refused.empty()) {
      refused(info.refused);
      return;
    }
    if (info.term < term_ || (real_ && info.term == term_)) {
      later(); // one that was deposed, or this one: none is better
      return;
    }
    if (member && info.term == term_ && (info.supervised || !options_.tell)) {
      give_up("the connection to the coordinator is lost");
      return;
    }
    job_ = info.job;
    term_ = info.term;
    refuse(info);
    if (real_)
      self_->demonitor(caf::actor_cast<caf::actor_addr>(real_));
    real_ = found;
    silent_ = false;
    unanswered_since_.reset();
    unanswered_ = {};
    joining_ = false;
    told_.clear();
    refuse_all();
    for (const auto& said : introductions_.all())
      say(said);
    for (const auto& said : std::exchange(kept_, {}))
      say(said);
    if (!info.left_out.empty() && options_.tell)
      come_back(info);
  }

  void say(const Said& said) {
    real_->enqueue(said.sender, caf::make_message_id(), said.message,
                   self_->context());
  }

  /// The role ends with that line.
  void refused(const std::string& why) {
    self_->quit(caf::make_error(caf::sec::invalid_argument, why));
  }

  void give_up(const std::string& why) {
    self_->quit(caf::make_error(caf::sec::remote_lookup_failed, why));
  }

  caf::event_based_actor* self_;
  ControlLineOptions options_;
  std::vector<Endpoint> places_; ///< where a coordinator may listen
  PlaceSearch search_{PlaceSearch::Options{}};
  std::chrono::milliseconds patience_{}; ///< with the place tried last
  Clock::time_point tried_; ///< that place, or the actor that is there
  uint64_t job_ = 0;        ///< 0: not known yet
  uint64_t term_ = 0;       ///< of the newest coordinator
  bool joining_ = false;    ///< again, and not answered yet
  std::string told_;        ///< why it was left out, last
  /// The oldest question since the newest answer; none: all are answered.
  std::optional<Clock::time_point> unanswered_since_;
  std::chrono::milliseconds unanswered_{}; ///< the same, while this process ran
  std::chrono::milliseconds loss_{}; ///< silence that counts; 0: not known yet
  /// Between two questions: those of a large job ask less often.
  std::chrono::milliseconds sign_period_ = usual_sign_period;
  caf::strong_actor_ptr real_;       ///< null: away
  bool silent_ = false;              ///< it does not answer
  caf::strong_actor_ptr asked_whom_; ///< whether it is the next one
  Clock::time_point away_since_;
  Introductions introductions_;
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
