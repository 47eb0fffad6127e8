#include "actors/launch/standby_watch.hpp"

#include "actors/launch/run_journal.hpp"
#include "kernels/base/error.hpp"
#include "kernels/files/shown_text.hpp"

#include <algorithm>
#include <utility>

namespace troupe {
namespace {

constexpr std::chrono::seconds line_period{30};
/// In which a voter that is there answers, or one that is not is known by why;
/// and between two lines.
constexpr std::chrono::seconds first_try{3};

} // namespace

StandbyWatch::StandbyWatch(Options options, SteadyClock::time_point now)
  : options_(std::move(options)),
    began_(now),
    last_(now),
    said_(now - first_try),
    next_(now) {}

void StandbyWatch::heard_job(const std::string& asked) {
  const std::lock_guard guard{mutex_};
  job_ = asked;
}

void StandbyWatch::heard_coordinator(const std::string& address) {
  const std::lock_guard guard{mutex_};
  leader_ = address;
}

void StandbyWatch::tell(const std::string& line) const {
  if (options_.note)
    options_.note(shown_text(line));
}

void StandbyWatch::look(const VotersReach& reach, SteadyClock::time_point now) {
  const std::lock_guard guard{mutex_};
  if (!job_.empty())
    check_voters_job(job_, options_.asked);
  if (leader_ != told_) {
    told_ = leader_;
    tell("stands by for the coordinator at " + leader_);
  }
  const auto reached = reach.reached();
  majority_ = reach.majority();
  ever_ = ever_ || majority_;
  if (reached > max_reached_) {
    max_reached_ = reached;
    last_ = now;
  }
  if (std::exchange(reached_, reached) != reached)
    next_ = std::min(next_, said_ + first_try);
  if (!ever_ && now - last_ > options_.deadline)
    throw InputError(
      "no majority within " + std::to_string(options_.deadline.count() / 1'000)
      + " s: " + reach.sentence()
      + "; start the others, see --voters, or give them longer with "
        "--join-deadline-ms");
  const bool known = reach.all_tried() || now - began_ >= first_try;
  if (now < next_ || !(majority_ ? waits_ : known))
    return;
  tell((majority_ ? "a majority is reached: " : "waits for a majority: ")
       + reach.sentence());
  waits_ = !majority_;
  said_ = now;
  next_ = now + line_period;
}

std::string StandbyWatch::stopped() const {
  const std::lock_guard guard{mutex_};
  if (!majority_)
    return "told to stop while it waited for a majority of voters";
  return leader_.empty() ? "told to stop before it led"
                         : "told to stop while another coordinator led";
}

} // namespace troupe
