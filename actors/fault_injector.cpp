#include "actors/fault_injector.hpp"

#include "actors/actor_node.hpp"
#include "actors/error_line.hpp"
#include "actors/interfaces.hpp"

namespace troupe {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

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
  return {over, "the run is over"};
}

} // namespace

class FaultInjector::Session {
public:
  Session(const std::string& coordinator, const std::string& certificates)
    : config_{load_credentials(certificates)},
      system_{config_},
      self_{system_} {
    coordinator_ = caf::actor_cast<coordinator_actor>(
      connect(system_, coordinator, connect_deadline_ms));
    self_->monitor(coordinator_);
    self_->send(coordinator_, Attach{false});
  }
  ~Session() { self_->send(coordinator_, Detach{}); }

  std::vector<FaultAnswer> inject(const std::vector<FaultWish>& wishes,
                                  milliseconds deadline) {
    const auto ask = [&](const FaultWish& wish) {
      return self_->request(
        coordinator_, deadline + repair_deadline,
        InjectFault{wish.role, names_of(wish.phases), wish.after,
                    static_cast<uint64_t>(deadline.count())});
    };
    std::vector<decltype(ask(wishes.front()))> asked;
    asked.reserve(wishes.size());
    for (const auto& wish : wishes)
      asked.push_back(ask(wish));
    std::vector<FaultAnswer> answers;
    for (auto& pending : asked)
      pending.receive(
        [&](const Note& x) {
          answers.push_back({FaultAnswer::Kind::done, x.line});
        },
        [&](const caf::error& why) { answers.push_back(answer_to(why)); });
    return answers;
  }

  uint64_t wait_for_step(uint64_t step, milliseconds deadline) {
    const auto end = Clock::now() + deadline;
    while (!over_ && step_ < step && Clock::now() < end)
      self_->receive([&](const Progress& x) { step_ = x.step; },
                     [](const EpochEnd&) {}, [](const Note&) {},
                     [&](const Finished&) { over_ = true; },
                     [&](const caf::down_msg&) { over_ = true; },
                     caf::after(milliseconds{50}) >> [] {});
    return step_;
  }

private:
  ActorConfig config_;
  caf::actor_system system_;
  caf::scoped_actor self_;
  coordinator_actor coordinator_;
  uint64_t step_ = 0;
  bool over_ = false;
};

FaultInjector::FaultInjector(const std::string& coordinator,
                             const std::string& certificates)
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
