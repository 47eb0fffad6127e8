#pragma once

#include "strategies/leases.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace troupe {

/// The versions of one slice that its owner can serve.
struct Restorable {
  uint64_t oldest = 0;
  uint64_t newest = 0;
};

/// Where a job that goes step by step goes on after an epoch change
/// (PROTOCOL 9).
struct Resume {
  uint64_t version = 0;     ///< where every role goes on
  bool rollback = false;    ///< committed steps are undone: owners restore it
  bool synchronise = false; ///< some replicas lack it: they take it ...
  uint32_t source = 0;      ///< ... from here, the lowest place that has it
  std::string reason;
};

/// Decides for slices on shards: the lowest newest version, if every slice
/// still has it and no step that was committed is undone by it (so it is as
/// long as no owner has lost its state); otherwise all go back to version 0,
/// which the seed alone restores. `committed` is the number of steps known to
/// be committed.
Resume decide_resume(const std::vector<Restorable>& slices, uint64_t committed);

/// Decides for replicas that hold all slices, each at one of these versions:
/// the newest that any has, for a step that one of them has reduced whole is
/// committed. It is a rollback only if all that had a committed version are
/// gone.
/// Errors: no replicas are a bug and assert.
Resume decide_resume(const std::vector<uint64_t>& versions, uint64_t committed);

/// The same where shards hold slices, and replicas the rest: the newest version
/// that every slice has and some replica had whole, which is at most a step
/// behind either. So a step is repaired as long as one side has not finished
/// it, and both go on alike. `slices`: what all replicas of a chain can serve,
/// for the source of a version that one of them lacks may be gone before that
/// has it, and `replicas`, by place, keep nothing older than what they began
/// at. Errors: no replicas are a bug and assert.
Resume decide_resume(const std::vector<Restorable>& slices,
                     const std::vector<Restorable>& replicas,
                     uint64_t committed);

/// The same where rows run free (free_rows.hpp): replicas alone say where the
/// job goes on. It is a rollback if all that had a committed version are gone,
/// or a chain has lost leases of one. `leases` by shard.
/// Errors: no replicas are a bug and assert.
Resume decide_resume(const std::map<uint32_t, LeaseSet>& leases,
                     const std::vector<Restorable>& replicas,
                     const LeaseSet& acknowledged, uint64_t committed);

} // namespace troupe
