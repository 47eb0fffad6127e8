#pragma once

#include "actors/voting/proposer_actor.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace troupe {

/// A coordinator's process among several: stands for election until it leads,
/// and writes the journal into a majority of the voters from then on.
///
///   stands --- a majority's votes, the newest log read ---> leads
///     ^                                                       |
///     |          another's term is higher: deposed -----------+
///     (a new process)
///
/// Source: Raft (strategies/quorum_log.hpp).
class Proposer : public JournalSink {
public:
  Proposer(caf::actor_system& system, ProposerOptions options);
  ~Proposer() override;

  /// Waits until this one leads. `stop` is asked ten times a second; null where
  /// it gives a reason. Called once.
  std::shared_ptr<const Elected>
  wait_to_lead(const std::function<std::string()>& stop);
  /// Calls then() once another leads, on another thread; at once where it does.
  void on_deposed(std::function<void()> then);

  /// `synced` is called once every later leader will have the event; never,
  /// where a majority cannot be reached, or another leads.
  void append(JournalEvent event, std::function<void()> synced) override;
  bool leads() const override;
  VotersReach reach() const;
  /// Waits until all that was appended is synced, or `deadline` has passed.
  void settle(std::chrono::milliseconds deadline);

private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
  caf::actor actor_;
};

} // namespace troupe
