#include "actors/launch/standby_watch.hpp"

#include "actors/launch/run_journal.hpp"
#include "kernels/base/error.hpp"

#include <utility>

namespace troupe {
namespace {

constexpr std::chrono::seconds line_period{30};
/// In which a voter that is there answers, or one that is not is known by why.
constexpr std::chrono::seconds first_try{3};

} // namespace

StandbyWatch::StandbyWatch(Options options, SteadyClock::time_point now)
  : options_(std::move(options)), began_(now), last_(now), next_(now) {}

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
    options_.note(line);
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
  const bool fewer_or_more = std::exchange(reached_, reached) != reached;
  if (fewer_or_more)
    last_ = now;
  if (majority_) {
    if (std::exchange(waits_, false))
      tell("a majority is reached: " + reach.sentence());
    next_ = now;
    return;
  }
  if (!ever_ && now - last_ > options_.deadline)
    throw InputError(
      "no majority within " + std::to_string(options_.deadline.count() / 1'000)
      + " s: " + reach.sentence()
      + "; start the others, see --voters, or give them longer with "
        "--join-deadline-ms");
  if (!reach.all_tried() && now - began_ < first_try)
    return;
  if (now >= next_ || (waits_ && fewer_or_more)) {
    tell("waits for a majority: " + reach.sentence());
    waits_ = true;
    next_ = now + line_period;
  }
}

std::string StandbyWatch::stopped() const {
  const std::lock_guard guard{mutex_};
  if (!majority_)
    return "told to stop while it waited for a majority of voters";
  return leader_.empty() ? "told to stop before it led"
                         : "told to stop while another coordinator led";
}

} // namespace troupe
