#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

namespace troupe {

/// A set of lease numbers kept as a floor and exceptions (PROTOCOL 11): every
/// lease below `floor()` is in, and those listed above it.
class LeaseSet {
public:
  LeaseSet() = default;
  LeaseSet(uint64_t floor, std::vector<uint64_t> above);

  bool contains(uint64_t lease) const;
  /// Returns false where the lease was in already.
  bool insert(uint64_t lease);
  uint64_t floor() const { return floor_; }
  /// One past the largest lease.
  uint64_t end() const { return above_.empty() ? floor_ : above_.back() + 1; }
  /// Rising.
  const std::vector<uint64_t>& above() const { return above_; }
  uint64_t size() const { return floor_ + above_.size(); }

private:
  uint64_t floor_ = 0;
  /// A copy goes with each update, and few are out of order: one run of memory.
  std::vector<uint64_t> above_;
};

/// Returns the leases that are in both.
LeaseSet intersection(const LeaseSet& a, const LeaseSet& b);
/// Returns how many leases of `a` are not in `b`.
uint64_t lacking(const LeaseSet& a, const LeaseSet& b);

/// Hands out the leases of an asynchronous run, each until it is consumed:
/// applied by every shard (PROTOCOL 11). Lease l is virtual rank l mod V of
/// step l / V.
class LeaseBook {
public:
  LeaseBook(uint64_t total, uint32_t shards);

  /// Grants up to `count` leases to a worker, returned ones first.
  std::vector<uint64_t> grant(uint32_t worker, uint32_t count);
  /// Records that a shard has applied a lease; returns true when that consumed
  /// it. Repeats, leases never granted, and shards that do not consume have no
  /// effect.
  bool applied(uint64_t lease, uint32_t shard);
  /// Takes back what a dead worker holds and has not been consumed.
  void worker_lost(uint32_t worker);
  /// The lease's push was refused: it is granted again. Returns who held it;
  /// nothing where nobody does any more.
  std::optional<uint32_t> refused(uint64_t lease);
  /// A shard came back with this set: what it lacks and nobody holds is issued
  /// again, also when it had been consumed before. Leases of the set that this
  /// book has not granted count as granted: a restarted coordinator opens a new
  /// book and passes in the set of every shard (PROTOCOL 16).
  void shard_restored(uint32_t shard, const LeaseSet& applied);
  /// The same for all: from here on these shards, and no others, consume.
  void restored(std::map<uint32_t, LeaseSet> applied);
  /// Grants nothing beyond `end`, until another end is given.
  void hold(uint64_t end) { hold_ = end; }
  uint64_t granted() const { return next_; } ///< all below it, at some time
  /// Grants nothing beyond what has been granted so far (Ctrl-C).
  void close();

  uint64_t consumed() const;
  bool is_consumed(uint64_t lease) const { return consumed_.contains(lease); }
  const LeaseSet& consumed_leases() const { return consumed_; }
  /// Who holds a lease that is granted and not consumed.
  const std::map<uint64_t, uint32_t>& holders() const { return holder_; }
  std::optional<uint32_t> holder(uint64_t lease) const;
  /// Granted, and consumed by nobody so far.
  std::vector<uint64_t> open() const;
  uint64_t total() const;
  bool done() const; ///< every lease (or, once closed, every granted one)
                     ///< is consumed

private:
  bool everywhere(uint64_t lease) const;

  uint64_t total_;
  uint64_t hold_ = ~uint64_t{0};
  uint64_t next_ = 0; ///< below it, every lease is consumed, returned or held
  bool closed_ = false;
  std::map<uint32_t, LeaseSet> applied_; ///< per shard
  LeaseSet consumed_;
  std::set<uint64_t> returned_;
  std::map<uint64_t, uint32_t> holder_; ///< granted, not consumed
};

} // namespace troupe
