#include "actors/launch/fault_injector.hpp"

#include "actors/control/actor_node.hpp"
#include "actors/control/control_line.hpp"
#include "actors/wire/error_line.hpp"
#include "actors/wire/interfaces.hpp"
#include "kernels/base/steady_clock.hpp"

#include <map>

namespace troupe {
namespace {

using std::chrono::milliseconds;
using Clock = SteadyClock;

constexpr uint64_t connect_deadline_ms = 10'000;
/// What the coordinator takes, at most, to see that a role is whole again.
constexpr milliseconds repair_deadline{30'000};

std::string names_of(const std::vector<StepPhase>& phases) {
  std::string out;
  for (auto phase : phases) {
    if (!out.empty())
      out += ',';
    out += to_string(phase);
  }
  return out;
}

FaultAnswer answer_to(const caf::error& why) {
  using enum FaultAnswer::Kind;
  if (why == caf::sec::invalid_argument)
    return {refused, line_of(why)};
  if (why == caf::sec::request_timeout)
    return {not_seen, line_of(why)};
  if (why == caf::sec::request_receiver_down
      && line_of(why).find("under way") != std::string::npos)
    return {cut_off, line_of(why)};
  return {over, "the run is over"};
}

} // namespace

class FaultInjector::Session {
public:
  Session(const std::string& coordinator, const CertificateSource& certificates)
    : config_{load_credentials(certificates, operator_name)},
      system_{config_},
      self_{system_} {
    ControlLineOptions line;
    line.first = caf::actor_cast<coordinator_actor>(
      connect(system_, coordinator, connect_deadline_ms));
    line.address = coordinator;
    line.role.kind = RoleKind::coordinator;
    coordinator_ = spawn_control_line(system_, std::move(line));
    self_->monitor(coordinator_);
    self_->send(coordinator_, Attach{false});
  }
  ~Session() {
    self_->send(coordinator_, Detach{});
    caf::anon_send_exit(coordinator_, caf::exit_reason::user_shutdown);
  }

  std::vector<FaultAnswer> inject(const std::vector<FaultWish>& wishes,
                                  milliseconds deadline) {
    const auto ask = [&](const FaultWish& wish) {
      return self_->request(coordinator_, deadline + repair_deadline,
                            InjectFault{wish.role, names_of(wish.phases),
                                        wish.after,
                                        static_cast<uint64_t>(deadline.count()),
                                        wish.kind, wish.amount});
    };
    std::vector<FaultAnswer> answers(wishes.size());
    // The coordinator answers when it is armed: only then may another role die
    // and make it seal.
    for (const bool own : {true, false}) {
      std::map<size_t, decltype(ask(wishes.front()))> asked;
      for (size_t i = 0; i < wishes.size(); ++i)
        if ((wishes[i].role.kind == RoleKind::coordinator) == own)
          asked.emplace(i, ask(wishes[i]));
      for (auto& [i, pending] : asked)
        pending.receive(
          [&, at = i](const Note& x) {
            answers[at] = {FaultAnswer::Kind::done, x.line};
          },
          [&, at = i](const caf::error& why) { answers[at] = answer_to(why); });
    }
    for (size_t i = 0; i < wishes.size(); ++i)
      if (wishes[i].role.kind == RoleKind::coordinator
          && wishes[i].kind == FaultKind::kill
          && answers[i].kind == FaultAnswer::Kind::done)
        await_return(answers, answers[i], deadline + repair_deadline);
    return answers;
  }

  /// The coordinator has said that it is about to die. Who was to die with it
  /// is not heard of: it was there to tell.
  void await_return(std::vector<FaultAnswer>& answers, FaultAnswer& own,
                    milliseconds deadline) {
    const auto end = Clock::now() + deadline;
    bool back = false;
    while (!back && !over_ && Clock::now() < end)
      hear([&](const std::string& line) {
        back = back || line.starts_with("the coordinator is back");
      });
    if (over_)
      own = {FaultAnswer::Kind::over, "the run is over"};
    else if (!back)
      own = {FaultAnswer::Kind::not_seen, "the coordinator lives"};
    else
      for (auto& answer : answers)
        if (answer.kind == FaultAnswer::Kind::cut_off)
          answer = {FaultAnswer::Kind::done, "died with the coordinator"};
  }

  uint64_t wait_for_step(uint64_t step, milliseconds deadline) {
    const auto end = Clock::now() + deadline;
    const auto ignore = [](const std::string&) {};
    while (hear(ignore, milliseconds{0})) // what came while a fault was awaited
      ;
    while (!over_ && step_ < step && Clock::now() < end)
      hear(ignore);
    return step_;
  }

private:
  /// Tells whether there was something to hear in time.
  template <class Noted>
  bool hear(Noted noted, milliseconds patience = milliseconds{50}) {
    bool heard = true;
    self_->receive([&](const Progress& x) { step_ = x.step; },
                   [](const DataEpochEnd&) {}, [](const Spreads&) {},
                   [&](const Note& x) { noted(x.line); },
                   [&](const Finished&) { over_ = true; },
                   [&](const caf::down_msg&) { over_ = true; },
                   caf::after(patience) >> [&] { heard = false; });
    return heard;
  }

  ActorConfig config_;
  caf::actor_system system_;
  caf::scoped_actor self_;
  coordinator_actor coordinator_;
  uint64_t step_ = 0;
  bool over_ = false;
};

FaultInjector::FaultInjector(const std::string& coordinator,
                             const CertificateSource& certificates)
  : session_(std::make_unique<Session>(coordinator, certificates)) {}
FaultInjector::~FaultInjector() = default;

std::vector<FaultAnswer>
FaultInjector::inject(const std::vector<FaultWish>& wishes,
                      std::chrono::milliseconds deadline) {
  return session_->inject(wishes, deadline);
}

uint64_t FaultInjector::wait_for_step(uint64_t step,
                                      std::chrono::milliseconds deadline) {
  return session_->wait_for_step(step, deadline);
}

} // namespace troupe
