#include "actors/voting/voter.hpp"

#include "actors/journal/journal_file.hpp"
#include "actors/process/steady_ms.hpp"
#include "kernels/base/error.hpp"
#include "strategies/quorum_log.hpp"

#include <algorithm>
#include <utility>

namespace troupe {
namespace {

std::vector<uint64_t> terms_of(const JournalFile& file) {
  std::vector<uint64_t> terms;
  for (const auto& event : file.events())
    terms.push_back(event.term);
  return terms;
}

class VoterState {
public:
  static inline const char* name = "voter";

  VoterState(voter_actor::pointer self, JournalFile file, size_t page_events)
    : self_(self),
      file_(std::move(file)),
      page_events_(page_events),
      voter_(file_.promised(), terms_of(file_), voter_patience.count()) {}

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
    const auto first = std::min<size_t>(read.after, read_.size());
    const auto end = std::min(first + page_events_, read_.size());
    page.events.assign(read_.begin() + static_cast<std::ptrdiff_t>(first),
                       read_.begin() + static_cast<std::ptrdiff_t>(end));
    page.more = end < read_.size();
    if (!page.more)
      read_.clear();
    return page;
  }

  caf::result<LogTaken> on(AppendLog& append) {
    LogBatch batch{append.term, {append.after_term, append.after_id}, {}};
    for (const auto& event : append.events)
      batch.terms.push_back(event.term);
    const auto before = voter_.promised();
    const auto entries = voter_.end().id;
    const auto verdict = voter_.take(batch, steady_ms());
    if (auto failure = keep_promise(before))
      return failure;
    if (verdict.led)
      follow(self_->current_sender());
    if (verdict.fits) {
      append.events.erase(append.events.begin(),
                          append.events.begin()
                            + static_cast<std::ptrdiff_t>(verdict.first));
      try {
        if (verdict.keep < entries)
          file_.cut(verdict.keep);
        if (!append.events.empty())
          file_.append(append.events);
      } catch (const InputError& failure) {
        return broken(failure.what());
      }
    }
    return LogTaken{verdict.led, verdict.fits, verdict.have, verdict.promised};
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
  size_t page_events_;
  Voter voter_;
  caf::actor_addr leader_;         ///< whose process is watched
  std::vector<JournalEvent> read_; ///< by who is about to lead, page by page
};

} // namespace

voter_actor spawn_voter(caf::actor_system& system, const std::string& path,
                        size_t page_events) {
  const bool there = journal_is_at(path);
  JournalFile file{path, there ? JournalFile::Open::resume
                               : JournalFile::Open::create};
  return system.spawn<voter_actor::stateful_impl<VoterState>, caf::detached>(
    std::move(file), page_events);
}

} // namespace troupe
