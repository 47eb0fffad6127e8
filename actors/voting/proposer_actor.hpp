#pragma once

#include "actors/journal/event.hpp"
#include "actors/voting/log_folding.hpp"
#include "actors/wire/messages/voting.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

/// Who keeps the journal.
struct ProposerOptions {
  std::vector<std::string> voters; ///< HOST:PORT each, the same for everybody
  uint32_t own = 0;                ///< the one that is in this process
  voter_actor own_voter;
  uint32_t seed = 0; ///< of how long it rests between attempts
  LogFolding folding{};
};

/// What a new leader begins with.
struct Elected {
  uint64_t term = 0;
  std::vector<JournalEvent> events; ///< what was decided, and may have been
};

/// Which voters are reached.
struct VotersReach {
  struct One {
    std::string place;  ///< HOST:PORT
    bool tried = false; ///< it has answered, or not in time
    std::string why;    ///< it is not reached; empty: it is, once it was tried
  };
  std::vector<One> voters;
  /// The leader has stepped down because no majority answered.
  bool lost = false;

  uint32_t reached() const;
  bool majority() const { return 2 * reached() > voters.size(); }
  bool all_tried() const;
  /// "1 of 3 voters reached; 10.0.0.2:7001: Connection refused"
  std::string sentence() const;
};

/// What a proposer tells, in its own thread.
struct ProposerCalls {
  std::function<void(std::shared_ptr<const Elected>)> leads; ///< once
  std::function<void()> deposed; ///< once; another leads, or is about to
  /// While it leads: whether it hears from a majority, each time that changes.
  /// Without one another may lead, and this one is deposed only later.
  std::function<void(bool)> hears;
  /// Whenever another voter is reached, or one no more. May be empty.
  std::function<void(const VotersReach&)> reach{};
};

/// Spawns the actor that stands for election, and writes the journal into a
/// majority of the voters once it leads: then it takes a JournalEvent with the
/// Completion that follows it, and a Completion alone, for when all that came
/// before is decided.
caf::actor spawn_proposer(caf::actor_system& system, ProposerOptions options,
                          ProposerCalls calls);

} // namespace troupe
