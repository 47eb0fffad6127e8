#pragma once

#include "actors/job/job.hpp"
#include "actors/wire/messages.hpp"
#include "strategies/chain_book.hpp"
#include "strategies/leases.hpp"
#include "strategies/resume.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace troupe {

/// How much a slice takes; a part of a sparse table: if all rows were there.
uint64_t bytes_of(const Slice& slice);

/// The number under which CommitBook knows who applies steps.
uint32_t owner_key(RoleId owner);

/// What changes from epoch to epoch in a parameter-server job: who keeps which
/// slice, who computes which virtual rank, what is left of the step that was
/// under way. Filled in from what the members said when they sealed. Replicas
/// that reduce together keep all slices: they have no chains. Nor have the
/// slices that every worker keeps beside shards.
class EpochPlan {
public:
  /// `min_workers` go on, and may begin, without the others; 0: one goes on,
  /// and all are needed to begin.
  explicit EpochPlan(const Job& job, uint32_t min_workers = 0);

  /// Tells whether these roles can go on without the others.
  bool viable(const std::set<RoleId>& present) const;
  const std::vector<WorkerRanks>& ranks() const { return ranks_; }
  std::set<uint32_t> workers() const; ///< of the epoch
  /// Tells whether the job asks for no more than these to begin with.
  bool begins(const std::set<RoleId>& present) const;
  /// Replicas of a slice shall be on different hosts where that can be: others
  /// learn what is kept twice on one. `hosts` names each one's roles.
  void spread(const std::map<std::string, std::set<RoleId>>& hosts);
  /// Decides chains and ranks of the next epoch.
  void begin(const std::map<RoleId, Sealed>& seals, uint64_t epoch);
  /// Who shall keep which slice can be changed here.
  ChainBook& chains() { return chains_; }
  /// What the job relies on: every slice has had so many updates or, since
  /// then, these leases (async).
  struct Acknowledged {
    uint64_t version = 0;
    std::optional<LeaseSet> leases{};
    /// Members of the newest epoch, by incarnation, where they told another
    /// coordinator of more than this one may know.
    const std::map<RoleId, uint64_t>* told_another = nullptr;
  };
  /// The absent replicas of slices of which those who have sealed hold less
  /// than that, or too little for the other slices. A head passes an update on
  /// before it has applied it: what a process has of one before it may be less
  /// than what others acknowledged. Where workers all-reduce, those are awaited
  /// who told another coordinator of it, if nobody who has sealed is one of
  /// them and has it: what this coordinator was told of is known to be gone
  /// with whoever is absent.
  std::set<RoleId> awaited(const std::map<RoleId, Sealed>& seals,
                           const Acknowledged& known) const;
  /// Tells whether some slices are past a step of which slice 0's head may not
  /// know what was decided (scalars, or what the step is made of).
  bool undecided() const { return undecided_; }
  /// Tells the members: chains, ranks, and what the owners hold.
  void tell(Activate& message) const;
  /// How the job goes on when an epoch changes in a period that is `async`.
  ResumeMode resume_mode(bool async) const;
  /// What decide_resume() looks at, of a job that relies on these steps and, as
  /// rows that run free do, on their leases.
  SealedState sealed(uint64_t committed) const;
  /// Who commits steps, by owner_key(), and the version that each has, where
  /// the job goes on at `version`. A head may have a version that its followers
  /// get only now, and a replica that takes the version may lose its source
  /// before it has it: until they have it, the step is not committed, and may
  /// have to be computed again.
  std::map<uint32_t, uint64_t> owners(ResumeMode mode, uint64_t version) const;
  /// Tells the members what there is of step `message.version`: replicas, which
  /// sums they have; workers of shards, which ranks nobody has.
  void tell_sums(Activate& message) const;
  /// The ranks of step `version` of which nobody is going to report: those who
  /// had them are gone, or so is the coordinator that they told.
  std::vector<RankRange> unreported(uint64_t version, bool told_another) const;
  /// The job is rolled back, to a checkpoint or to where it began: what was
  /// said of steps is void.
  void undo();
  /// The versions that each slice's head can serve.
  std::vector<Restorable> restorable() const;
  /// The newest version, at most `version`, that all replicas of every slice
  /// hold.
  uint64_t everywhere(uint64_t version) const;
  /// Shards that are the tail of a slice: they acknowledge.
  std::set<uint32_t> tails() const;
  /// Tells whether the role goes through such a phase in this epoch.
  bool passes(RoleId role, StepPhase phase) const;
  /// Those of `present` that have caught up with all that they are to hold, in
  /// an epoch that begins at `version`.
  std::set<RoleId> whole(const std::set<RoleId>& present,
                         uint64_t version) const;
  /// What each shard of the epoch keeps as a replica.
  std::map<uint32_t, uint64_t> kept_bytes() const;
  /// How many begin steps, and say where they pause.
  size_t beginners() const { return is_staged() ? stages_ : ranks_.size(); }

private:
  /// Who commits steps where shards keep rows and every worker the rest.
  std::map<uint32_t, uint64_t> holders(uint64_t version) const;
  /// Who commits steps where rows run free: tails are through whole steps.
  std::map<uint32_t, uint64_t> steps_held(uint64_t version) const;
  /// The ranks of step `version` that neither owners nor workers hold.
  std::vector<RankRange> missing(uint64_t version) const;
  /// The ranks of step `version` that no worker of this epoch has computed, or
  /// is going to: owners have them from one that may be gone.
  std::vector<RankRange> orphaned(uint64_t version) const;
  /// What all slices of each tail have applied, by these replicas of them: a
  /// head may have more than the tail, which was never acknowledged; and a tail
  /// that was a learner may still lack what its chain had, and gets it.
  std::map<uint32_t, LeaseSet>
  applied_at(const std::vector<SliceState>& states) const;
  /// Tells whether a worker has sealed that keeps what all of them do, at
  /// `version` or past it, since it was one of `members`.
  bool keeps_layers(uint64_t version, const std::map<RoleId, Sealed>& seals,
                    const std::map<RoleId, uint64_t>& members) const;
  /// Tells whether a replica of the newest epoch has sealed whose process is
  /// the one that was its member.
  bool lives(uint32_t slice, const std::map<RoleId, Sealed>& seals,
             const std::map<RoleId, uint64_t>& members) const;
  /// `before`: the chains of the epoch before this one.
  bool lacks_decision(const ChainBook& before) const;
  /// Whether members keep slices that others have not: shards, stages, or
  /// tensor members.
  bool is_served() const { return keeps_slices(job_.plan.owner_kind); }
  bool is_staged() const { return troupe::keeps_layers(job_.plan.owner_kind); }

  const Job& job_;
  uint32_t min_workers_;
  ChainBook chains_;
  std::vector<WorkerRanks> ranks_;
  std::vector<SliceState> heads_; ///< of slices on shards
  std::vector<SliceState> tails_; ///< the same
  bool undecided_ = false;
  size_t stages_ = 0;
  std::map<uint64_t, std::vector<RankRange>> computed_; ///< by step
  /// What each replica has summed: nodes of that step.
  std::map<RoleId, std::pair<uint64_t, std::vector<RankRange>>> sums_;
  std::map<RoleId, Restorable> reduced_; ///< of every worker, if it keeps some
};

} // namespace troupe
