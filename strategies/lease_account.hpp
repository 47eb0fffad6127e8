#pragma once

#include "strategies/commit_book.hpp"
#include "strategies/consistency.hpp"
#include "strategies/leases.hpp"
#include "strategies/plan.hpp"
#include "strategies/resume.hpp"
#include "strategies/sampling.hpp"
#include "strategies/staleness.hpp"

#include <map>
#include <optional>
#include <set>
#include <vector>

namespace troupe {

/// The coordinator's account of an asynchronous run: who holds which lease, who
/// waits for one, and what the consumed ones amount to.
class LeaseAccount {
public:
  /// The job's, of `steps` times `virtual_ranks` leases.
  struct Terms {
    uint64_t steps = 0;
    uint32_t virtual_ranks = 1;
    int64_t staleness = -1; ///< the bound; < 0: none
    /// The job begins with a checkpoint, whose leases shards have had.
    bool goes_on = false;
  };
  LeaseAccount(const Plan& plan, const Sampling& sampling, const Terms& terms);

  // --- who is there ---------------------------------------------------------

  void worker_lost(uint32_t worker);
  /// An earlier coordinator counted so many steps and samples. The first epoch
  /// says what is consumed; more steps than that are not counted again, fewer
  /// were lost with it.
  void resume(uint64_t steps, uint64_t samples);
  /// What of the leases the job relies on.
  KnownLeases known() const;
  struct Resumed {
    uint64_t step = 0; ///< where the count goes on, without what is undone
    std::vector<CommitBook::Commit> completed; ///< from there on
  };
  /// An epoch begins: workers ask again, shards have what they applied, and
  /// will have what they are promised before they serve: what was consumed and
  /// is promised stays so. What is not is issued again: so many `lost` leases
  /// are undone, as decide_resume() says (more failed than a chain can bear).
  /// `step` is where the count was.
  Resumed begin_epoch(const std::set<uint32_t>& workers, SealedState sealed,
                      uint64_t lost, uint64_t step);

  /// A period begins: every lease of the steps before is consumed, whoever
  /// computed those.
  void begin_period(const Consistency& consistency,
                    const std::set<uint32_t>& workers,
                    const std::set<uint32_t>& shards);
  void bound(const Consistency& consistency);
  /// Grants the leases of begun steps and no more; returns the first step that
  /// is left alone.
  uint64_t hold();
  bool drained() const; ///< all that hold() leaves is consumed

  // --- handing out ----------------------------------------------------------

  void ask(uint32_t worker, uint32_t count);
  /// Leases for those who wait, as far as there are any and the bound on
  /// staleness allows; who gets none waits on. Call after ask() and applied().
  std::map<uint32_t, std::vector<uint64_t>> hand_out();

  // --- what became of them --------------------------------------------------

  /// The loss of a lease, as its worker reports it: it may come after the
  /// shards' reports, or be lost with the worker.
  void computed(uint64_t lease, const CommitBook::Leaf& leaf);
  /// Returns the step that this completes: V consumed leases count as one
  /// (PROTOCOL 12). `step` is what it would be called.
  std::optional<CommitBook::Commit> applied(uint64_t lease, uint32_t shard,
                                            uint64_t step);

  /// A push was too stale: the lease is handed out again, computed on newer
  /// parameters. Slices that had applied it will drop it as a duplicate.
  void refused(uint64_t lease);

  /// Grants nothing that was not granted before (Ctrl-C).
  void close() { book_.close(); }
  bool done() const { return book_.done(); }
  uint64_t max_lead() const { return clocks_.max_lead(); }
  /// Leases that are consumed and do not fill a step. A run that is told to end
  /// grants no more, so it may end with some, which its weights have.
  struct Rest {
    uint32_t leases = 0; ///< less than V
    uint32_t samples = 0;
  };
  Rest rest() const { return {window_leases_, window_.samples}; }
  const LeaseSet& consumed_leases() const { return book_.consumed_leases(); }

private:
  std::optional<CommitBook::Commit> consumed(uint64_t lease, uint64_t step);
  void empty_window();
  Resumed catch_up(uint64_t lost);
  uint64_t samples_of(uint64_t lease) const;
  void count_rest(uint64_t leases);

  void skip_begun(LeaseSet& before);
  uint64_t undo(uint64_t leases, uint64_t step);
  void members(const std::set<uint32_t>& workers);

  Terms terms_;
  const Sampling& sampling_;
  uint32_t consumers_; ///< shards that own slices
  LeaseBook book_;
  StalenessClocks clocks_;
  std::map<uint32_t, uint32_t> waiting_; ///< worker -> how many it asked for
  std::map<uint64_t, CommitBook::Leaf> losses_;
  CommitBook::Commit window_;  ///< the step that is filling up
  double window_loss_ = 0;     ///< a sum
  uint32_t window_losses_ = 0; ///< samples whose loss is in it
  uint32_t window_leases_ = 0;
  uint64_t held_from_ = ~uint64_t{0}; ///< lease
  bool begun_ = false;                ///< there was an epoch
  struct Before {                     ///< as an earlier coordinator counted
    uint64_t steps = 0;
    uint64_t samples = 0;
  };
  std::optional<Before> before_;
  uint64_t owed_ = 0; ///< steps that were counted, and a tail has yet to get
};

} // namespace troupe
