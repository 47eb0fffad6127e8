#pragma once

#include "strategies/chain_book.hpp"
#include "strategies/consistency.hpp"
#include "strategies/epoch_parts.hpp"
#include "strategies/leases.hpp"
#include "strategies/plan.hpp"
#include "strategies/resume.hpp"
#include "strategies/step_phase.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

/// The number under which CommitBook knows who applies steps.
uint32_t owner_key(RoleId owner);

/// How an epoch begins: what its members are told, and what the coordinator's
/// accounts go on with.
struct EpochDecision {
  // --- what members are told ------------------------------------------------

  std::vector<SliceChain> chains; ///< of each slice
  /// Of every worker; replicas: with the sums that it has of the step that the
  /// epoch begins with.
  std::vector<WorkerRanks> ranks;
  /// What the head of each chain holds: workers resend the rest. None where
  /// the job is rolled back, for that is undone.
  std::vector<SliceState> slices;
  /// Workers of shards: the ranks of that step that nobody has.
  std::vector<RankRange> missing;

  // --- where the job goes on, and why ---------------------------------------

  ResumeMode mode = ResumeMode::slices;
  SealedState sealed; ///< what that was decided by
  Resume resume;

  // --- what is committed, where the job goes by steps -----------------------

  /// Who commits steps, by owner_key(), and the version that each has. A head
  /// may have a version that its followers get only now, and a replica that
  /// takes the version may lose its source before it has it: until they have
  /// it, the step is not committed, and may have to be computed again.
  std::map<uint32_t, uint64_t> owners;
  /// The ranks of the step that the epoch begins with of which nobody is going
  /// to report, since those who had them are gone. Who is here says again what
  /// it has reported, before it has sealed (role/kept_reports.hpp).
  std::vector<RankRange> unreported;
};

/// What changes from epoch to epoch: who keeps which slice, who computes which
/// virtual rank, what is left of the step that was under way, and where the job
/// goes on. Decided from what the members said when they sealed. Replicas that
/// reduce together keep all slices: they have no chains. Nor have the slices
/// that every worker keeps beside shards. The ranks of a pipeline's stages are
/// the plan's, in every epoch.
class EpochPlan {
public:
  struct Options {
    /// So many workers go on, and may begin, without the others; 0: one goes
    /// on, and all are needed to begin.
    uint32_t min_workers = 0;
    /// Slice 0's replicas decide on what steps are made of, or on scalars.
    bool decides = false;
  };
  /// `plan` outlives the machine.
  EpochPlan(const Plan& plan, Options options);
  explicit EpochPlan(const Plan& plan) : EpochPlan(plan, Options{}) {}

  // --- who is enough --------------------------------------------------------

  /// Tells whether these roles can go on without the others.
  bool viable(const std::set<RoleId>& present) const;
  /// Tells whether the job asks for no more than these to begin with.
  bool begins(const std::set<RoleId>& present) const;

  /// What the job relies on, as its coordinator knows it.
  struct Known {
    Consistency period{};   ///< that lasts
    uint64_t committed = 0; ///< steps
    KnownLeases leases{};   ///< where they are handed out
    /// Members reported to another coordinator, or lost their connection: what
    /// was reported of the step under way may be gone where dense parameters
    /// are reduced among workers.
    bool reports_lost = false;
    /// Members of the newest epoch, by incarnation, where they told another
    /// coordinator of more than this one may know; but for those that are gone
    /// with all that they had.
    std::optional<std::map<RoleId, uint64_t>> told_another{};
  };
  /// The absent replicas of slices of which those who have sealed hold less
  /// than the job relies on, or too little for the other slices. A head passes
  /// an update on before it has applied it: what a process has of one before it
  /// may be less than what others acknowledged. Where workers all-reduce, those
  /// are awaited who told another coordinator of it, if nobody who has sealed
  /// is one of them and has it: what this coordinator was told of is known to
  /// be gone with whoever is absent.
  std::set<RoleId> awaited(const Seals& seals, const Known& known) const;

  // --- the next epoch -------------------------------------------------------

  /// Replicas of a slice shall be on different hosts where that can be: others
  /// learn what is kept twice on one. `hosts` names each one's roles.
  void spread(const std::map<std::string, std::set<RoleId>>& hosts);
  /// Who shall keep which slice can be changed here.
  ChainBook& chains() { return chains_; }
  const ChainBook& chains() const { return chains_; }
  /// Decides the next epoch, of those who have sealed.
  EpochDecision decide(const Seals& seals, const Known& known, uint64_t epoch);

  // --- the newest epoch -----------------------------------------------------

  const std::vector<WorkerRanks>& ranks() const { return ranks_; }
  std::set<uint32_t> workers() const;
  /// Shards that are the tail of a slice: they acknowledge.
  std::set<uint32_t> tails() const;
  /// Who holds a slice, or learns it.
  std::set<uint32_t> keepers() const;
  /// How many begin steps, and say where they pause.
  size_t beginners() const {
    return is_staged() || plan_.served ? stages_ : ranks_.size();
  }
  /// The newest version that any slice's head had as the epoch began; 0 where
  /// the job was rolled back.
  uint64_t newest_sealed() const;
  /// Tells whether the role goes through such a phase in this epoch.
  bool passes(RoleId role, StepPhase phase) const;
  /// Those of `present` that have caught up with all that they are to hold, in
  /// an epoch that begins at `version`.
  std::set<RoleId> whole(const std::set<RoleId>& present,
                         uint64_t version) const;
  /// What each shard of the epoch keeps as a replica.
  std::map<uint32_t, uint64_t> kept_bytes() const;

private:
  /// Takes in who is there and what they hold; decides chains and ranks.
  void begin(const Seals& seals, uint64_t epoch);
  ResumeMode mode(bool async) const;
  /// The leases that the job relies on; where it goes by steps, those of the
  /// steps that are committed.
  LeaseSet acknowledged(const Known& known) const;
  /// What decide_resume() looks at.
  SealedState sealed(const Known& known) const;
  std::map<uint32_t, uint64_t> owners(ResumeMode mode, uint64_t version) const;
  /// Says what there is of step `version`: replicas, which sums they have;
  /// workers of shards, which ranks nobody has.
  void tell_sums(EpochDecision& decision, uint64_t version) const;
  std::vector<RankRange> unreported(uint64_t version, bool lost) const;
  /// The newest version, at most `version`, that all replicas of every slice
  /// hold.
  uint64_t everywhere(uint64_t version) const;
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
  bool keeps_layers(uint64_t version, const Seals& seals,
                    const std::map<RoleId, uint64_t>& members) const;
  /// Tells whether a replica of the newest epoch has sealed whose process is
  /// the one that was its member.
  bool lives(uint32_t slice, const Seals& seals,
             const std::map<RoleId, uint64_t>& members) const;
  /// `before`: the chains of the epoch before this one.
  bool lacks_decision(const ChainBook& before) const;
  /// The job is rolled back: what was said of steps is void.
  void undo();
  /// Whether members keep slices that others have not: shards, or stages.
  bool is_served() const { return keeps_slices(plan_.owner_kind); }
  /// Whether stages, or tensor members, do. Those of which shards keep all have
  /// their ranks for good, too, and take a step that is broken off anew; what
  /// shards have of it already they are not sent again.
  bool is_staged() const { return has_model_part(plan_.owner_kind); }

  const Plan& plan_;
  Options options_;
  ChainBook chains_;
  std::vector<WorkerRanks> ranks_;
  std::vector<SliceState> heads_; ///< of slices on shards
  std::vector<SliceState> tails_; ///< the same
  /// Some slices are past a step of which slice 0's head may not know what was
  /// decided (scalars, or what the step is made of).
  bool undecided_ = false;
  size_t stages_ = 0;
  std::map<uint64_t, std::vector<RankRange>> computed_; ///< by step
  /// What each replica has summed: nodes of that step.
  std::map<RoleId, std::pair<uint64_t, std::vector<RankRange>>> sums_;
  std::map<RoleId, Restorable> reduced_; ///< of every worker, if it keeps some
};

} // namespace troupe
