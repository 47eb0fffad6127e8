#pragma once

#include "actors/shard/frame.hpp"
#include "actors/shard/part.hpp"
#include "actors/slice_work.hpp"

#include <map>
#include <memory>
#include <vector>

namespace troupe {

/// The dense slices of an asynchronous job: each push is an update of its own,
/// applied on arrival, once (PROTOCOL 11).
class LeaseSlices : public ShardPart {
public:
  explicit LeaseSlices(ShardFrame& shard);

  void seal(std::vector<SliceState>& report) const override;
  void restore() override;
  void enter_epoch(const Activate& activation) override;
  void pull(const Pull& pull, const worker_actor& worker) override;
  using ShardPart::push;
  void push(const LeasePush& push) override;
  void snapshot(const SnapshotRequest& request) override;

private:
  struct Owned {
    uint32_t id;
    LeaseSet leases; ///< applied, or on the way to be
    SliceWork work;
    uint64_t ordered = 0; ///< version once all that is queued is applied
  };

  /// Leases of the steps before the period count as applied: what they were to
  /// do is done.
  LeaseSet applied(size_t local) const;
  /// Refuses what is older than the job takes.
  bool too_stale(uint64_t staleness, uint64_t lease);

  /// Reports a lease once every slice of this shard has really applied it.
  void settle(uint64_t lease);

  ShardFrame& shard_;
  std::vector<std::unique_ptr<Owned>> slices_; ///< by index in the store
  std::map<uint64_t, size_t> in_flight_;       ///< lease -> updates queued
};

} // namespace troupe
