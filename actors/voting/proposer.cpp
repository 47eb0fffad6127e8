#include "actors/voting/proposer.hpp"

#include "actors/wire/messages.hpp"

#include <atomic>
#include <condition_variable>
#include <future>
#include <mutex>
#include <utility>

namespace troupe {
namespace {

constexpr std::chrono::milliseconds stop_period{100};

} // namespace

/// What the actor tells the threads that wait for it.
struct Proposer::Shared {
  std::mutex mutex;
  std::condition_variable changed;
  std::shared_ptr<const Elected> elected;
  bool deposed = false;
  std::atomic<bool> hears = true; ///< from a majority
  VotersReach reach;
  std::function<void()> then; ///< once it is deposed

  void depose() {
    std::function<void()> told;
    {
      const std::lock_guard guard{mutex};
      deposed = true;
      told = std::exchange(then, {});
    }
    if (told)
      told();
  }
};

Proposer::Proposer(caf::actor_system& system, ProposerOptions options)
  : shared_(std::make_shared<Shared>()) {
  ProposerCalls calls;
  calls.leads = [shared = shared_](std::shared_ptr<const Elected> elected) {
    const std::lock_guard guard{shared->mutex};
    shared->elected = std::move(elected);
    shared->changed.notify_all();
  };
  calls.deposed = [shared = shared_] { shared->depose(); };
  calls.hears = [shared = shared_](bool hears) { shared->hears = hears; };
  calls.reach = [shared = shared_](const VotersReach& reach) {
    const std::lock_guard guard{shared->mutex};
    shared->reach = reach;
  };
  for (const auto& place : options.voters)
    shared_->reach.voters.push_back({place, false, {}});
  shared_->reach.voters.at(options.own).tried = true;
  actor_ = spawn_proposer(system, std::move(options), std::move(calls));
}

Proposer::~Proposer() {
  caf::anon_send_exit(actor_, caf::exit_reason::user_shutdown);
}

std::shared_ptr<const Elected>
Proposer::wait_to_lead(const std::function<std::string()>& stop) {
  std::unique_lock guard{shared_->mutex};
  while (!shared_->changed.wait_for(guard, stop_period, [this] {
    return shared_->elected != nullptr;
  })) {
    guard.unlock();
    if (stop && !stop().empty())
      return nullptr;
    guard.lock();
  }
  return shared_->elected;
}

void Proposer::on_deposed(std::function<void()> then) {
  {
    const std::lock_guard guard{shared_->mutex};
    if (!shared_->deposed) {
      shared_->then = std::move(then);
      return;
    }
  }
  then();
}

void Proposer::settle(std::chrono::milliseconds deadline) {
  auto settled = std::make_shared<std::promise<void>>();
  caf::anon_send(actor_, Completion{[settled] { settled->set_value(); }});
  settled->get_future().wait_for(deadline);
}

void Proposer::append(JournalEvent event, std::function<void()> synced) {
  caf::anon_send(actor_, std::move(event), Completion{std::move(synced)});
}

VotersReach Proposer::reach() const {
  const std::lock_guard guard{shared_->mutex};
  return shared_->reach;
}

bool Proposer::leads() const {
  return shared_->hears;
}

} // namespace troupe
