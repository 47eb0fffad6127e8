#pragma once

#include "actors/shard/part.hpp"
#include "actors/shard/row_desk.hpp"
#include "actors/shard/slice_chains.hpp"
#include "actors/shard/slice_work.hpp"

#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace troupe {

/// The slices of an asynchronous job: each push is an update of its own,
/// applied on arrival, once (PROTOCOL 11). The head gives it its place in the
/// order, which all replicas follow; the tail reports it and is read.
/// Source: Dean et al., "Large Scale Distributed Deep Networks", NIPS 2012
/// (Downpour SGD), for updates on arrival; that each counts once is our own.
class LeaseSlices : public ShardPart {
public:
  explicit LeaseSlices(ShardContext& shard);

  void leave_epoch() override;
  void seal(std::vector<SliceState>& report) const override;
  void restore() override;
  void enter_epoch(const Activate& activation) override;
  void take(const ShardMessage& message,
            const caf::strong_actor_ptr& from) override;

private:
  void pull(const Pull& pull, const worker_actor& worker);
  void pull(const RowPull& pull, const worker_actor& worker);
  void push(const LeasePush& push);
  void end_at(const EndAt& end);
  void snapshot(const SnapshotRequest& request);

  // --- rows that run free (strategies/free_rows.hpp) ------------------------

  uint64_t through(uint32_t slice) const;
  /// Rows of a pull that may be read now; else it waits for pushes.
  void give_rows(uint32_t slice, RowDesk::Ready ready);
  void give_waiting_rows(uint32_t slice);
  /// Reports the steps that all slices which are served here are through.
  void report_steps();
  /// A slice has come through a step, or is served from here on: what is wanted
  /// of it at that version goes to the coordinator.
  void show_steps(uint32_t slice, uint64_t first);

  void show(const std::vector<uint32_t>& slices, uint64_t named);
  struct Owned {
    LeaseSet leases; ///< applied, or on the way to be
    SliceWork work;
    KnownLists lists; ///< of a part of a sparse table
  };

  /// Those that this shard is the tail of and that are as their head's.
  std::vector<uint32_t> served() const;
  void became_current(uint32_t slice);
  void give(const worker_actor& worker, const std::vector<uint32_t>& slices);
  void apply(const ChainUpdate& update, KnownLists::List ids = {});
  /// Leases of the steps before the period count as applied: what they were to
  /// do is done.
  LeaseSet applied(uint32_t slice) const;
  LeaseSet of_period(const LeaseSet& known) const;
  /// Refuses what is older than the job takes.
  bool too_stale(uint64_t staleness, uint64_t lease);
  /// Reports a lease once every slice that is served here has really applied
  /// it.
  void settle(uint64_t lease);

  ShardContext& shard_;
  std::map<uint32_t, std::unique_ptr<Owned>> slices_;
  std::map<uint64_t, size_t> in_flight_; ///< lease -> updates queued
  std::map<uint32_t, std::vector<worker_actor>> waiting_; ///< by slice: pulls
  std::map<uint32_t, std::vector<RowDesk::Ready>> waiting_rows_; ///< the same
  std::optional<uint64_t> snapshot_; ///< asked for in this epoch, under a name
  SliceChains chains_;

  const bool free_rows_;
  uint64_t end_; ///< the version that the run ends at
  uint64_t reported_ = ~uint64_t{0};
  uint64_t max_behind_ = 0; ///< steps, of the rows that were read
};

} // namespace troupe
