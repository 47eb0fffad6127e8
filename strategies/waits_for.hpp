#pragma once

#include "strategies/role_id.hpp"
#include "strategies/sign_pace.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe {

/// One waits for another.
struct Wait {
  RoleId who;
  RoleId whom;
  std::string what; ///< "its gradient"
  friend bool operator==(const Wait&, const Wait&) = default;
};

/// What a coordinator has heard of the step that is under way.
struct StepView {
  enum class Stage {
    forming, ///< too few are there for an epoch
    sealing, ///< the next epoch waits for seals
    active,
  };
  struct Member {
    RoleId role;
    bool seals = false;    ///< it has not sealed yet
    bool computed = false; ///< worker: it has reported its leaves; stage, or
                           ///< tensor member, that pulls: the last of its
                           ///< pipeline has
    bool applied = false;  ///< owner of slices: it has the step's outcome
    uint64_t silent_ms = 0;
    bool awaits_samples = false;   ///< worker: readers owe it some
    std::vector<RoleId> readers{}; ///< whom it has asked; empty: nobody yet
    bool pulls = false; ///< stage, tensor member: shards keep what it computes
                        ///< with
    bool goes_back = false; ///< stage before the last: it has passes to do once
                            ///< that has computed; when those are done is known
                            ///< with the step's commit
  };
  struct Reader {
    RoleId role;
    uint64_t silent_ms = 0;
  };

  Stage stage = Stage::forming;
  bool served = false; ///< shards own the slices
  bool leased = false; ///< asynchronous: nobody waits for a step
  uint64_t age_ms = 0; ///< since the step before was committed
  uint64_t usual_ms = 0;
  uint64_t sign_ms = usual_sign_ms; ///< between two signs of life of a member
  std::vector<Member> members;
  std::vector<Reader> readers; ///< that are there
  std::vector<RoleId> absent;  ///< members
  std::vector<RoleId> absent_readers;
};

/// Who waits for whom, and who of them waits for nobody: the culprit of a step
/// that is late.
///
///   worker --version--> shard --gradient--> worker that computes still
///   replica --gradient--> replica that is silent
///   worker --samples--> reader, or all that are absent where none is there
///   coordinator --seal, join--> member
struct WaitsFor {
  std::vector<Wait> waits;
  bool late = false;            ///< the step takes far longer than usual
  std::vector<RoleId> culprits; ///< fewest that explain it; empty: not known
  std::string reason;           ///< "worker:2 is silent for 3.1 s"
};

/// Pure.
WaitsFor waits_for(const StepView& view);

} // namespace troupe
