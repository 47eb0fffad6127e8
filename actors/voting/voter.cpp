#include "actors/voting/voter.hpp"

#include "actors/journal/history.hpp"
#include "actors/journal/journal_file.hpp"
#include "actors/process/steady_ms.hpp"
#include "kernels/base/error.hpp"
#include "strategies/quorum_log.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace troupe {
namespace {

class VoterState {
public:
  static inline const char* name = "voter";

  VoterState(voter_actor::pointer self, JournalFile file, VoterCalls calls,
             size_t page_events, const LogFolding& folding)
    : self_(self),
      file_(std::move(file)),
      calls_(std::move(calls)),
      page_events_(page_events),
      folding_(folding),
      voter_(file_.promised(), shape_of(file_.events()),
             voter_patience.count()) {
    remember(file_.events());
  }

  voter_actor::behavior_type make_behavior() {
    self_->set_down_handler([this](const caf::down_msg& down) {
      if (down.source != leader_)
        return;
      leader_ = nullptr; // it is watched again if it comes back
      voter_.leader_gone();
    });
    return {
      [this](const AskVote& x) { return on(x); },
      [this](const ReadLog& x) { return on(x); },
      [this](AppendLog& x) { return on(x); },
    };
  }

private:
  caf::result<VoteGiven> on(const AskVote& wish) {
    const auto before = voter_.promised();
    const auto vote = voter_.asked(wish.term, wish.trial, steady_ms());
    if (auto failure = keep_promise(before))
      return failure;
    return VoteGiven{vote.granted, vote.promised, vote.end.term, vote.end.id};
  }

  caf::result<LogPage> on(const ReadLog& read) {
    if (read.after == 0 || read_.empty()) // another one has read to the end
      read_ = file_.events();
    LogPage page;
    const auto first = std::ranges::upper_bound(read_, read.after, {},
                                                &JournalEvent::id);
    const auto left = static_cast<size_t>(read_.end() - first);
    page.events.assign(
      first, first + static_cast<std::ptrdiff_t>(std::min(left, page_events_)));
    page.more = left > page_events_;
    if (!page.more)
      read_.clear();
    return page;
  }

  caf::result<LogTaken> on(AppendLog& append) {
    LogBatch batch{append.term,
                   {append.after_term, append.after_id},
                   {},
                   append.snapshot,
                   append.decided};
    if (!append.snapshot)
      for (const auto& event : append.events)
        batch.terms.push_back(event.term);
    const auto before = voter_.promised();
    const auto entries = voter_.end().id;
    const auto verdict = voter_.take(batch, steady_ms());
    if (auto failure = keep_promise(before))
      return failure;
    if (verdict.led)
      follow(self_->current_sender());
    try {
      if (verdict.replaced) {
        file_.replace(append.events);
        untold_.clear();
        remember(append.events);
      } else if (verdict.fits && !append.snapshot) {
        write(append.events, verdict, entries);
      }
    } catch (const InputError& failure) {
      return broken(failure.what());
    }
    tell_decided(append.term);
    return LogTaken{verdict.led, verdict.fits, verdict.have, verdict.promised};
  }

  void write(std::vector<JournalEvent>& events, const Voter::Verdict& verdict,
             uint64_t entries) {
    events.erase(events.begin(),
                 events.begin() + static_cast<std::ptrdiff_t>(verdict.first));
    if (verdict.keep < entries) {
      file_.cut(verdict.keep);
      std::erase_if(untold_,
                    [&](const auto& x) { return x.first > verdict.keep; });
    }
    if (events.empty())
      return;
    file_.append(events);
    remember(events);
    unfolded_ += events.size();
    if (unfolded_ >= folding_.period)
      fold();
  }

  void remember(const std::vector<JournalEvent>& events) {
    for (const auto& event : events)
      if ((calls_.revoked && event.kind == "revoked")
          || (calls_.job && event.kind == "job")
          || (calls_.coordinator && event.kind == "address"))
        untold_[event.id] = event;
  }

  /// What a later leader's journal will have, too; of coordinators only the one
  /// of that term.
  void tell_decided(uint64_t term) {
    while (!untold_.empty() && untold_.begin()->first <= voter_.decided()) {
      const auto event = std::move(untold_.begin()->second);
      untold_.erase(untold_.begin());
      try {
        if (const auto what = revoked_in(event))
          calls_.revoked(what->first, what->second);
        else if (event.kind == "job")
          calls_.job(read_history({event}).asked);
        else if (event.term == term)
          calls_.coordinator(read_history({event}).address);
      } catch (const InputError&) { // no coordinator wrote that
      }
    }
  }

  /// What cannot be folded now may be later.
  void fold() {
    unfolded_ = 0;
    try {
      file_.fold(voter_.decided(), folding_.limits);
    } catch (const InputError&) { // it is whole as it was
      return;
    }
    voter_.fold(shape_of(file_.events()).base.id);
  }

  caf::error keep_promise(uint64_t before) {
    if (voter_.promised() == before)
      return {};
    try {
      file_.promise(voter_.promised());
      return {};
    } catch (const InputError& failure) {
      return broken(failure.what());
    }
  }

  /// What it would answer for is not on the disk.
  caf::error broken(const std::string& why) {
    auto reason = caf::make_error(caf::sec::runtime_error, why);
    self_->quit(reason);
    return reason;
  }

  void follow(const caf::strong_actor_ptr& leader) {
    const auto address = caf::actor_cast<caf::actor_addr>(leader);
    if (!leader || address == leader_) // null: it has gone meanwhile
      return;
    leader_ = address;
    self_->monitor(caf::actor_cast<caf::actor>(leader));
  }

  voter_actor::pointer self_;
  JournalFile file_;
  VoterCalls calls_;
  /// What calls are made of, not known to be decided.
  std::map<uint64_t, JournalEvent> untold_;
  size_t page_events_;
  LogFolding folding_;
  size_t unfolded_ = 0; ///< events since it was folded
  Voter voter_;
  caf::actor_addr leader_;         ///< whose process is watched
  std::vector<JournalEvent> read_; ///< by who is about to lead, page by page
};

} // namespace

voter_actor spawn_voter(caf::actor_system& system, const std::string& path,
                        VoterCalls calls, size_t page_events,
                        const LogFolding& folding) {
  const bool there = journal_is_at(path);
  JournalFile file{path, there ? JournalFile::Open::resume
                               : JournalFile::Open::create};
  return system.spawn<voter_actor::stateful_impl<VoterState>, caf::detached>(
    std::move(file), std::move(calls), page_events, folding);
}

} // namespace troupe
