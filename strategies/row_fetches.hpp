#pragma once

#include "strategies/role_id.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

namespace troupe {

/// A worker's batches of rows on their way from readers: which is asked for
/// where, and when again. A batch is a list of samples, which any reader
/// answers with the same bits, so it may be asked for as often as is needed;
/// what counts a sample is the step or lease that computes it (I6).
///
///   expected, or awaited -> asked for -> here -> taken
///            ^                  |
///            +-- its reader is gone, or does not answer and another is there
///
/// A worker has readers of its own, and asks one of the others' where none of
/// its own can be linked, or has answered in time.
///
/// What is asked for or here takes no more than a window of bytes, but for one
/// batch that is larger (I10): what is awaited drives out what is expected, and
/// what nobody came for while several windows were taken is dropped.
/// Pure: times are milliseconds of any steady clock.
class RowFetches {
public:
  struct Options {
    uint64_t window_bytes = uint64_t{64} << 20;
    /// How long an awaited batch may take, whoever is asked.
    uint64_t deadline_ms = 60'000;
    uint64_t look_ms = 1'000; ///< between two looks at who reads
    uint64_t hurry_ms = 100;  ///< the same while nobody does, or one is late
    uint64_t late_ms = 500;   ///< of an awaited batch
    uint64_t tell_ms = 2'000; ///< a longer wait is told
    /// Within which a reader answers; twice as long for each one passed over,
    /// so that a slow one is not asked in vain again and again.
    uint64_t answer_ms = 2'000;
  };

  /// Ask a linked reader for a batch; an answer to an older request of the
  /// batch counts no more.
  struct Ask {
    uint64_t batch;
    uint64_t request;
    RoleId reader;
  };
  struct Link {
    RoleId reader;
  };
  /// Ask the coordinator who reads for this worker.
  struct LookUp {};
  /// A batch that was expected is dropped; to be had again, it is wished for
  /// anew.
  struct Forget {
    uint64_t batch;
  };
  struct Tell {
    std::string line;
  };
  /// An awaited batch has not come; it is forgotten.
  struct GiveUp {
    uint64_t batch;
    std::string reason;
  };
  using Action = std::variant<Ask, Link, LookUp, Forget, Tell, GiveUp>;
  using Actions = std::vector<Action>;

  explicit RowFetches(const Options& options) : options_(options) {}

  /// A batch that will be awaited most likely. Batches are numbered by the
  /// caller, in the order of its wishes.
  Actions expect(uint64_t batch, uint64_t bytes, uint64_t now_ms);
  /// Somebody waits for it, whether it was expected or not.
  Actions await(uint64_t batch, uint64_t bytes, uint64_t now_ms);
  /// Its rows are here. Ignored unless `request` is its newest one.
  void arrived(uint64_t batch, uint64_t request);
  /// Its rows are no longer held.
  Actions taken(uint64_t batch);

  /// The coordinator has said who reads for this worker, and who else reads, in
  /// the order in which they are tried.
  Actions readers(const std::vector<RoleId>& names,
                  const std::vector<RoleId>& others = {});
  Actions linked(RoleId reader);
  /// There is no link to it any more, or none was made: then `why`.
  Actions unlinked(RoleId reader, uint64_t now_ms, const std::string& why = {});
  /// Call at least every hundred milliseconds.
  Actions tick(uint64_t now_ms);

  /// Whom batches were asked of that have been awaited for longer than
  /// `late_ms`, each once; nothing: none has been. Empty: nobody could be
  /// asked.
  std::optional<std::vector<RoleId>> late(uint64_t now_ms) const;

  /// Bytes that are asked for or here.
  uint64_t held_bytes() const { return held_; }

private:
  enum class Stage : uint8_t { wanted, asked, here };
  struct Batch {
    uint64_t bytes = 0;
    uint64_t taken_before = 0; ///< bytes, when it was wished for
    Stage stage = Stage::wanted;
    bool awaited = false;
    bool told = false;
    uint64_t since_ms = 0; ///< it is awaited
    RoleId reader;         ///< whom it is asked of
    uint64_t request = 0;  ///< the newest
    /// When that reader was first seen to be waited for.
    std::optional<uint64_t> asked_ms;
    std::optional<RoleId> passed_over; ///< the reader before, if it was slow
    uint32_t slow = 0;                 ///< how many were passed over
  };
  using Batches = std::map<uint64_t, Batch>;
  enum class LinkState : uint8_t { linking, linked };

  void ask(Actions& actions);
  bool make_room(uint64_t bytes, bool awaited, Actions& actions);
  void forget_expected(Stage stage, uint64_t bytes, Actions& actions);
  void forget_stale(Actions& actions);
  void want(Batches::iterator batch);
  Batches::iterator erase(Batches::iterator batch);
  void withdraw(const Batch& batch);
  void look(uint64_t after_ms, uint64_t now_ms, Actions& actions);
  bool is_overdue(const Batch& batch, uint64_t now_ms) const;
  bool is_linked(RoleId reader) const;
  bool reads_itself() const;
  void link_other(Actions& actions);
  std::optional<RoleId> idlest(std::optional<RoleId> but = {}) const;
  std::string why_none(const Batch& batch) const;

  Options options_;
  Batches batches_;
  std::set<uint64_t> wanted_[2]; ///< those that are expected, and awaited
  std::vector<RoleId> readers_;  ///< that read for this worker
  std::vector<RoleId> others_;
  std::map<RoleId, std::string> unlinkable_; ///< why
  std::map<RoleId, LinkState> links_;
  std::map<RoleId, uint64_t> owed_; ///< bytes, by whom
  uint64_t held_ = 0;
  uint64_t taken_ = 0; ///< bytes, in all
  uint64_t requests_ = 0;
  std::optional<uint64_t> looked_ms_;
};

} // namespace troupe
