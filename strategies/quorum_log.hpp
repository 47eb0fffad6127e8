#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

namespace troupe {

/// A log that a majority of voters keeps (PROTOCOL 15): who leads it, and which
/// of its entries are decided. Entries are known here by the terms in which
/// they were written; what they say is the caller's. The rules are those of
/// Raft (Ongaro, Ousterhout 2014, sections 5.2 to 5.4), with a trial before a
/// vote (Ongaro's thesis, 9.6), so that who cannot win disturbs nobody.

/// Where a log ends; the newer of two is the larger.
struct LogEnd {
  uint64_t term = 0; ///< of its last entry; 0: it is empty
  uint64_t id = 0;   ///< of that entry, from 1

  auto operator<=>(const LogEnd&) const = default;
};

/// A log whose beginning may be folded: what it says is kept in fewer entries.
struct LogShape {
  LogEnd base; ///< the last entry of the folded part; {}: nothing is folded
  std::vector<uint64_t> terms; ///< of the entries after it

  LogEnd end() const;
  /// Null: the log does not reach so far, or has it folded.
  std::optional<uint64_t> term_of(uint64_t id) const;
  /// Folds everything up to this entry; one that is folded changes nothing.
  void fold(uint64_t id);
};

/// Entries of a leader, for a voter that has those before them; or what the
/// leader has folded, for one that has less.
struct LogBatch {
  uint64_t term = 0; ///< of the leader
  LogEnd after;      ///< the entry before them
  std::vector<uint64_t> terms;
  bool snapshot = false; ///< of all entries up to `after`, and no other
  uint64_t decided = 0;  ///< up to this entry
};

/// One voter's part. Its log and promised() must outlive its process: they are
/// synced before an answer that grants or fits is sent.
class Voter {
public:
  struct Vote {
    bool granted = false;
    uint64_t promised = 0;
    LogEnd end;
  };
  struct Verdict {
    bool led = false;  ///< false: the leader's term is over
    bool fits = false; ///< false: the entry before them is not here
    uint64_t have = 0; ///< fits: as the leader's up to here; else: ask for more
    uint64_t promised = 0;
    uint64_t keep = 0; ///< fits: the last entry that stays
    size_t first = 0;  ///< fits: of the batch; it and what follows are written
    bool replaced = false; ///< fits: a snapshot is written, nothing else stays
  };

  /// `log`: what it has. Who leads and was heard of within `patience_ms` is not
  /// voted out.
  Voter(uint64_t promised, LogShape log, uint64_t patience_ms);

  /// Somebody wishes to lead in `term`. A trial promises nothing.
  Vote asked(uint64_t term, bool trial, uint64_t now_ms);
  /// A leader's entries; none: it lives.
  Verdict take(const LogBatch& batch, uint64_t now_ms);
  /// The leader's process died: nobody need wait.
  void leader_gone() { leader_until_ms_ = 0; }

  /// No leader of a lower term is listened to.
  uint64_t promised() const { return promised_; }
  LogEnd end() const { return log_.end(); }
  /// Entries up to this one are here, and will be in every later leader's log.
  uint64_t decided() const { return decided_; }
  /// What is decided may be folded, and only that: nobody asks for it to go.
  void fold(uint64_t id);

private:
  void take_snapshot(const LogBatch& batch, Verdict& verdict);
  void take_entries(const LogBatch& batch, Verdict& verdict);

  uint64_t promised_;
  LogShape log_;
  uint64_t decided_;
  uint64_t patience_ms_;
  uint64_t leader_until_ms_ = 0;
};

/// How one becomes the leader: a trial, a vote, and the newest log of those who
/// voted.
class Candidacy {
public:
  explicit Candidacy(uint32_t voters) : voters_(voters) {}

  struct Wish {
    uint64_t term = 0;
    bool trial = false;
  };
  /// Begins another attempt, with a trial; earlier votes count no more.
  Wish begin();
  /// What a voter says to `wish`. Once a majority has granted a trial, returns
  /// the vote to ask for; null otherwise.
  std::optional<Wish> answered(uint32_t voter, const Wish& wish,
                               const Voter::Vote& vote);
  /// The voter whose log the leader goes on with; null: it does not lead, or
  /// not in term(). It leads once a term: who is deposed calls begin().
  std::optional<uint32_t> elected() const;
  uint64_t term() const { return wish_.term; }

private:
  uint32_t voters_;
  Wish wish_;
  uint64_t promised_ = 0; ///< the highest heard of
  std::set<uint32_t> grants_;
  LogEnd newest_;
  uint32_t best_ = 0;
};

/// A leader's part: what each voter has, and what is decided.
class Leadership {
public:
  /// `log`: what it goes on with.
  Leadership(uint32_t voters, uint64_t term, LogShape log);

  /// Writes one more; returns its number.
  uint64_t append();
  uint64_t end() const { return log_.end().id; }
  /// Folds what is decided, up to this entry.
  void fold(uint64_t id);

  /// Entries for a voter: at most `most`, none where it has all or an answer is
  /// awaited; `idle` asks for an empty batch then, which shows that the leader
  /// lives. One that lacks what is folded gets a snapshot first.
  std::optional<LogBatch> next(uint32_t voter, size_t most, bool idle);
  /// Errors: of a voter that does not answer: `lost`.
  void answered(uint32_t voter, const Voter::Verdict& verdict);
  void lost(uint32_t voter);
  /// Time passes, by the leader's own steps: one that was stopped did not see
  /// any. Who has had no answer from a majority for `most` of them steps down,
  /// so that those who reach it only look for another.
  void tick(uint32_t most);
  /// Whether a majority has answered in the last `most` ticks. Once it has not
  /// for as long as voters wait for a leader, another may lead.
  bool heard(uint32_t most) const;

  /// Entries up to this one will be in the log of every later leader.
  uint64_t decided() const { return decided_; }
  /// Another leads, or is about to: nothing more will be decided.
  bool deposed() const { return deposed_; }

private:
  struct Follower {
    uint64_t next = 1;
    uint64_t matched = 0;
    bool awaited = false;
    uint32_t silent = 0; ///< ticks since an answer
  };
  void decide();

  uint64_t term_;
  LogShape log_;
  std::vector<Follower> followers_;
  uint64_t decided_; ///< what is folded was
  bool deposed_ = false;
};

} // namespace troupe
