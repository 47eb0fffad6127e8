#include "apps/doctor/diagnosis.hpp"

#include "apps/terminal/short_numbers.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace troupe {
namespace {

using Kind = Finding::Kind;

/// A role that computes so many times as long as the others do holds them up.
/// One with a virtual rank more than another may take twice as long.
constexpr double straggles = 2.2;
/// A shard that is busy for such a share of the time is what others wait for.
constexpr double is_full = 0.85;
/// And below this it does not hold others up.
constexpr double is_idle = 0.3;
/// A step that waits for such a share of its time is not bound by computing.
constexpr double waits = 0.5;
/// A step that is late for longer is no hiccup; where there are links over TCP,
/// what is wrong with one has been reported by the second.
constexpr double is_late_s = 1.5;
constexpr double is_late_with_links_s = 3;
/// Who holds it up and is silent has been so for a second then.
constexpr double is_silent_s = 0.5;
/// Nothing gets through a link for longer: the system has sent it three times
/// again. One or two that are lost cost a moment.
constexpr double stalls_s = 1.2;
/// A link is held against others that send for such a share of the time; it
/// holds others up if it sends for longer than the second.
constexpr double is_used = 0.04;
constexpr double is_in_use_long = 0.25;
/// And it is slow if it gets less through than that part of what is usual.
constexpr double is_slow = 0.67;
/// Samples that come within less are as good as there.
constexpr double short_ms = 1;

std::string times(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

bool has(const std::string& text, const char* word) {
  return text.find(word) != std::string::npos;
}

/// "worker:1" of "worker:1 is silent for 3.0 s".
std::string subject_of(const std::string& reason) {
  return reason.substr(0, reason.find(' '));
}

constexpr auto remedy_of_silence =
  "is its process stopped, its host hung or cut off? On its host: ps -o "
  "state,cmd -C troupe (T: kill -CONT it)";

Finding of_left_out(const RoleView& role) {
  const auto why = role.tags.empty() ? std::string{} : role.tags.front();
  return {Kind::wrong, role.role, why.empty() ? "is left out" : why,
          has(why, "link") || has(why, "reach") || has(why, "connection")
            ? "is there a way between its host and the others? On its host: "
              "troupe doctor --coordinator HOST:PORT --certificates DIR"
          : has(why, "silent")
            ? remedy_of_silence
            : "look whether its process runs (ps, dmesg, its log); started "
              "again with the same command it joins"};
}

/// `late`: as JobView has it.
Finding of_late(const std::string& late) {
  const auto who = subject_of(late);
  auto remedy = "its log and its host's load tell more (troupe top, l on " + who
                + ")";
  if (has(late, "silent"))
    remedy = remedy_of_silence;
  else if (has(late, "not there"))
    remedy = "start it again with its command, or let its supervisor do so";
  else if (has(late, "samples"))
    remedy = "is what it reads slow, or its host busy? troupe bench data "
             "measures the source; more readers (--readers) share the work";
  else if (has(late, "computes"))
    remedy = "what else runs on its host (top, cat /proc/pressure/cpu)? "
             "--backup-workers or --async do not wait for it";
  return {Kind::wrong, who, "the step is late: " + late, remedy};
}

bool has_shards(const JobView& job) {
  return std::ranges::any_of(job.roles, [](const RoleView& x) {
    return kind_of(x.role) == "ps";
  });
}

/// Of links, those that are in some trouble: which role has most of its own
/// among them, at either end. One end of a link is to blame for it; a worker
/// that has no other links than these, rather than a shard that has.
struct Blame {
  const RoleView* role = nullptr;
  const LinkView* link = nullptr; ///< the worst one, of it or to it
  std::string from;               ///< whose link that is
};

template <class IsWrong>
Blame blame_of(const JobView& job, IsWrong is_wrong,
               double (*badness)(const LinkView&)) {
  struct Count {
    double wrong = 0, all = 0;
  };
  std::map<std::string, Count> counts;
  for (const auto& role : job.roles)
    for (const auto& link : role.links) {
      const double wrong = is_wrong(link) ? 1 : 0;
      for (const auto& end : {role.role, link.peer}) {
        counts[end].wrong += wrong;
        counts[end].all += 1;
      }
    }
  Blame out;
  std::pair<double, double> most{0, 0}; // of all of its own; how many
  for (const auto& role : job.roles) {
    const auto& count = counts[role.role];
    const std::pair of_it{count.wrong / std::max(1.0, count.all), count.wrong};
    if (of_it > most) {
      most = of_it;
      out.role = &role;
    }
  }
  if (out.role == nullptr)
    return out;
  for (const auto& role : job.roles)
    for (const auto& link : role.links)
      if (is_wrong(link)
          && (role.role == out.role->role || link.peer == out.role->role)
          && (out.link == nullptr || badness(link) > badness(*out.link))) {
        out.link = &link;
        out.from = role.role;
      }
  return out;
}

/// Somebody's bytes do not get through, though the other end is there.
std::optional<Finding> of_stalled(const JobView& job) {
  const auto blame = blame_of(
    job, [](const LinkView& link) { return link.stalled_s >= stalls_s; },
    [](const LinkView& link) { return link.stalled_s; });
  if (blame.role == nullptr)
    return std::nullopt;
  return Finding{Kind::wrong, blame.role->role,
                 "nothing that " + blame.from + " sends to " + blame.link->peer
                   + " has been acknowledged for "
                   + times(blame.link->stalled_s)
                   + " s, though both are there: packets are lost between them",
                 "is there a way between its host and the others, in both "
                 "directions, also for large packets, and does a firewall drop "
                 "ports? On its host: troupe doctor --coordinator HOST:PORT "
                 "--certificates DIR"};
}

double rate_of(const LinkView& link) {
  return link.delivered / link.busy;
}

/// It carries enough to tell.
bool has_pace(const LinkView& link) {
  return link.busy > is_used && link.delivered > 0;
}

/// Of paces; none: they are too few to tell what is usual.
std::optional<double> usual_of(std::vector<double> paces) {
  constexpr size_t fewest = 3;
  if (paces.size() < fewest)
    return std::nullopt;
  std::ranges::sort(paces);
  return paces[paces.size() / 2];
}

/// Who has no link that is as quick as others' quickest are: where a host's
/// cable is slow, so are all that lead there, in a small group most of them.
/// `usual`: what others' quickest are.
Blame blame_of_slow_host(const JobView& job, double& usual) {
  std::map<std::string, double> quickest;
  for (const auto& role : job.roles)
    for (const auto& link : role.links)
      if (has_pace(link))
        for (const auto& end : {role.role, link.peer})
          quickest[end] = std::max(quickest[end], rate_of(link));
  std::vector<double> paces;
  paces.reserve(quickest.size());
  for (const auto& [role, its] : quickest)
    paces.push_back(its);
  usual = usual_of(paces).value_or(0);
  Blame out;
  for (const auto& role : job.roles)
    if (const auto its = quickest.find(role.role);
        its != quickest.end() && its->second < is_slow * usual
        && (out.role == nullptr || its->second < quickest[out.role->role]))
      out.role = &role;
  if (out.role == nullptr)
    return out;
  for (const auto& role : job.roles)
    for (const auto& link : role.links)
      if ((role.role == out.role->role || link.peer == out.role->role)
          && has_pace(link) && link.busy > is_in_use_long
          && (out.link == nullptr || rate_of(link) < rate_of(*out.link))) {
        out.link = &link;
        out.from = role.role;
      }
  return out.link == nullptr ? Blame{} : out;
}

/// A link that takes far longer for its bytes than others do.
Blame blame_of_slow_link(const JobView& job, double& usual) {
  std::vector<double> paces;
  for (const auto& role : job.roles)
    for (const auto& link : role.links)
      if (has_pace(link))
        paces.push_back(rate_of(link));
  usual = usual_of(paces).value_or(0);
  return blame_of(
    job,
    [&](const LinkView& link) {
      return link.busy > is_in_use_long && link.delivered > 0
             && rate_of(link) < is_slow * usual;
    },
    [](const LinkView& link) { return link.busy / link.delivered; });
}

std::optional<Finding> of_slow_link(const JobView& job) {
  double usual = 0;
  auto blame = blame_of_slow_host(job, usual);
  if (blame.role == nullptr)
    blame = blame_of_slow_link(job, usual);
  if (blame.role == nullptr)
    return std::nullopt;
  const auto slow = rate_of(*blame.link);
  return Finding{
    Kind::wrong, blame.role->role,
    "its link is slow: from " + blame.from + " to " + blame.link->peer + ' '
      + short_bytes(slow) + " get through in a second of sending, on others "
      + short_bytes(usual) + ", and it sends for "
      + std::to_string(std::lround(100 * blame.link->busy)) + "% of the time",
    "is its network card slower (ethtool), its cable or switch full, or does "
    "somebody else send there? troupe bench "
      + std::string{has_shards(job) ? "parameter-server" : "all-reduce"}
      + " measures links"};
}

/// A checkpoint that takes far longer than those before.
std::optional<Finding> of_checkpoint(const JobView& job) {
  constexpr double short_s = 1, long_s = 60, factor = 5;
  const auto limit = std::isfinite(job.usual_checkpoint_s)
                       ? std::max(short_s, factor * job.usual_checkpoint_s)
                       : long_s;
  if (job.checkpoint_s <= limit)
    return std::nullopt;
  return Finding{
    Kind::wrong, "coordinator",
    "has been writing a checkpoint for " + times(job.checkpoint_s) + " s"
      + (std::isfinite(job.usual_checkpoint_s)
           ? ", which took " + times(job.usual_checkpoint_s) + " s so far"
           : std::string{})
      + "; steps do not wait for it, but what is lost with a host grows",
    "is the disk of --checkpoint-dir slow or full (iostat, df, a mount that "
    "does not answer)? --checkpoint-every N writes less"};
}

/// A reader for whose samples workers wait again and again.
std::optional<Finding> of_owing(const JobView& job) {
  constexpr size_t min_looks = 2;
  const RoleView* owes = nullptr;
  for (const auto& role : job.roles)
    if (role.owed_samples >= min_looks
        && (owes == nullptr || role.owed_samples > owes->owed_samples))
      owes = &role;
  if (owes == nullptr || (std::isfinite(owes->busy) && owes->busy >= is_idle))
    return std::nullopt; // how busy it is says more
  return Finding{Kind::wrong, owes->role,
                 "does not serve samples in time, and is not busy with them",
                 "is its process stopped, its host hung, its core taken by "
                 "others, or its link cut? On its host: ps -o state,cmd -C "
                 "troupe (T: kill -CONT it), top"};
}

/// A worker that spends most of a step on waiting for samples, and the reader
/// that reads most of the time, where one does.
std::optional<Finding> of_data(const JobView& job) {
  const RoleView* hungry = nullptr;
  const RoleView* reader = nullptr;
  for (const auto& role : job.roles) {
    if (role.data_ms > short_ms && role.data_ms > waits * role.compute_ms
        && (hungry == nullptr || role.data_ms > hungry->data_ms))
      hungry = &role;
    if (kind_of(role.role) == "reader" && std::isfinite(role.busy)
        && (reader == nullptr || role.busy > reader->busy))
      reader = &role;
  }
  if (hungry == nullptr)
    return std::nullopt;
  auto found = "waits " + times(hungry->data_ms) + " of the "
               + times(hungry->compute_ms)
               + " ms that it computes a step for its samples";
  if (hungry->decode_ms > short_ms)
    found += ", " + times(hungry->decode_ms) + " of them to decode them";
  if (reader == nullptr)
    return Finding{Kind::wrong, hungry->role, found,
                   "troupe bench data measures the source; readers (--readers) "
                   "decode elsewhere, --data-cache keeps what is far away"};
  const auto busy = "busy for "
                    + std::to_string(std::lround(100 * reader->busy))
                    + "% of the time";
  if (reader->busy < is_idle)
    return Finding{Kind::wrong, hungry->role,
                   found + ", and no reader is busy for long: " + reader->role
                     + " is " + busy,
                   "what is between them: are links slow (troupe status), is a "
                   "source far away (troupe bench data, --data-cache), is a "
                   "host's core taken by others?"};
  return Finding{Kind::wrong, reader->role,
                 "is " + busy + ", and " + hungry->role + ' ' + found,
                 "more readers (--readers), or more cores for them; troupe "
                 "bench data measures the source"};
}

struct Pace {
  const RoleView* slowest = nullptr;
  double longest = 0, median = 0;
};

/// How long roles compute, of which some must do so for each step.
std::optional<Pace> pace_of(const JobView& job) {
  Pace pace;
  std::vector<double> all;
  for (const auto& role : job.roles)
    if (std::isfinite(role.compute_ms)) {
      all.push_back(role.compute_ms);
      if (role.compute_ms > pace.longest) {
        pace.longest = role.compute_ms;
        pace.slowest = &role;
      }
    }
  if (all.size() < 2 || pace.slowest == nullptr)
    return std::nullopt;
  // Of two, the other one; else the middle.
  std::ranges::sort(all);
  pace.median = all[(all.size() - 1) / 2];
  return pace;
}

/// A stage or a tensor member.
bool is_part(const RoleView& role) {
  return kind_of(role.role) == "stage" || kind_of(role.role) == "tensor";
}

/// What a role waits for in a step, and for how long, in milliseconds.
struct Wait {
  const char* what = "";
  double ms = 0;
};

Wait wait_of(const RoleView& role) {
  Wait out;
  for (const auto& [what, ms] :
       {Wait{"pulls", role.pull_ms}, Wait{"pushes", role.push_ms},
        Wait{is_part(role) ? "what others send" : "the sums of the others",
             role.reduce_ms}})
    if (std::isfinite(ms) && ms > out.ms)
      out = {what, ms};
  return out;
}

/// Who hardly waits while all others do, for longer than it computes: what it
/// does besides holds them up. Null: nobody, or a third of them.
const RoleView* unaccounted(const JobView& job, double longest) {
  constexpr double short_wait = 0.2;
  const RoleView* culprit = nullptr;
  size_t all = 0, few = 0;
  for (const auto& role : job.roles) {
    if (!std::isfinite(role.compute_ms))
      continue;
    ++all;
    const auto wait = wait_of(role).ms;
    if (wait > short_wait * longest)
      continue;
    ++few;
    if (culprit == nullptr || wait < wait_of(*culprit).ms)
      culprit = &role;
  }
  const bool explained = culprit != nullptr && culprit->compute_ms > longest;
  return few == 0 || few > std::max<size_t>(1, all / 3) || explained ? nullptr
                                                                     : culprit;
}

/// On cores that have too much to do short computing is anybody's: nobody waits
/// for it.
std::optional<Finding> of_pace(const JobView& job, double step_ms) {
  const auto pace = pace_of(job);
  if (!pace || !(pace->longest > straggles * pace->median)
      || pace->longest < waits * step_ms)
    return {};
  return Finding{
    Kind::wrong, pace->slowest->role,
    "computes " + times(pace->longest) + " ms a step, "
      + times(pace->longest / pace->median) + " times as long as the others ("
      + times(pace->median) + " ms)",
    std::string{
      "what else runs on its host, is it slower, or has it fewer cores "
      "(--devices, control groups)? "}
      + (is_part(*pace->slowest)
           ? "troupe plan says what each part has to do"
           : "--backup-workers or --async do not wait for it")};
}

/// The role of which `value` is most, and more than nothing.
template <class Value>
const RoleView* most(const JobView& job, Value value) {
  const RoleView* found = nullptr;
  for (const auto& role : job.roles) {
    const auto here = value(role);
    if (std::isfinite(here) && here > (found == nullptr ? 0 : value(*found)))
      found = &role;
  }
  return found;
}

std::optional<Finding> of_full_role(const JobView& job) {
  const auto* busiest = most(job, [](const RoleView& role) {
    return kind_of(role.role) == "reader" ? 0 : role.busy;
  });
  if (busiest == nullptr || !(busiest->busy > is_full))
    return {};
  return Finding{
    Kind::wrong, busiest->role,
    "is busy for " + std::to_string(std::lround(100 * busiest->busy))
      + "% of the time, and the others wait for it",
    "more shards (--ps, troupe ctl shards), or troupe ctl rebalance"};
}

/// What the role that waits longest waits for, and where that is long, why.
std::optional<Finding> of_wait(const JobView& job) {
  const auto* waiting =
    most(job, [](const RoleView& role) { return wait_of(role).ms; });
  if (waiting == nullptr || !std::isfinite(waiting->compute_ms))
    return {};
  const auto wait = wait_of(*waiting);
  const auto share = wait.ms / (wait.ms + waiting->compute_ms);
  if (const auto* culprit = unaccounted(job, wait.ms);
      culprit != nullptr && share > waits)
    return Finding{Kind::wrong, culprit->role,
                   "holds the others up: " + waiting->role + " waits "
                     + times(wait.ms) + " ms a step for " + wait.what + ", and "
                     + culprit->role + " hardly waits, though it computes for "
                     + times(culprit->compute_ms) + " ms only",
                   "what delays it besides: reading its data, its links, its "
                   "host's load? --backup-workers or --async do not wait for "
                   "it"};
  const auto found = waiting->role + " computes " + times(waiting->compute_ms)
                     + " ms a step and waits " + times(wait.ms) + " ms for "
                     + wait.what;
  if (!(share > waits))
    return Finding{Kind::good, "job", found, ""};
  const auto* queue = most(job,
                           [](const RoleView& role) { return role.queued; });
  return Finding{
    Kind::note, "exchange",
    found
      + (queue == nullptr ? ""
                          : "; " + short_bytes(queue->queued)
                              + " wait for links of " + queue->role),
    std::string{"larger batches (--global-batch), fewer workers, or "
                "--compress; troupe bench "}
      + (has_shards(job) ? "parameter-server" : "all-reduce")
      + " measures the links"};
}

/// Nothing is in the way.
Finding of_step(const JobView& job, double step_ms) {
  const auto* slowest =
    most(job, [](const RoleView& role) { return role.compute_ms; });
  const auto step = "a step takes " + times(step_ms) + " ms";
  return {Kind::good, "job",
          step
            + (slowest == nullptr
                 ? ""
                 : ", of which " + slowest->role + " computes for "
                     + times(slowest->compute_ms) + ", the longest of all")
            + "; nobody is late",
          ""};
}

} // namespace

std::optional<Finding> diagnose_at_once(const JobView& job) {
  for (const auto& role : job.roles)
    if (role.left_out)
      return of_left_out(role);
  // Who says nothing more takes nothing, either.
  if (has(job.late, "silent") && job.late_s >= is_silent_s)
    return of_late(job.late);
  if (auto stalled = of_stalled(job))
    return stalled;
  const bool linked = std::ranges::any_of(job.roles, [](const RoleView& role) {
    return !role.links.empty();
  });
  return !job.late.empty()
             && job.late_s >= (linked ? is_late_with_links_s : is_late_s)
           ? std::optional{of_late(job.late)}
           : std::nullopt;
}

bool is_undecided(const JobView& job) {
  return !job.late.empty() && !diagnose_at_once(job);
}

Finding diagnose(const JobView& job, const std::string& address) {
  if (auto finding = diagnose_at_once(job))
    return *finding;
  if (const auto owing = of_owing(job))
    return *owing;
  if (job.steps_per_second == 0 && !job.was_late.empty())
    return of_late(job.was_late);
  if (job.steps_per_second == 0)
    return {Kind::wrong, "job",
            "commits no steps, and nobody is known to be "
            "waited for",
            "troupe status " + address + "; troupe events LOG-DIR"};
  if (const auto data = of_data(job))
    return *data;
  if (const auto slow = of_slow_link(job))
    return *slow;
  const auto step_ms = 1e3 / job.steps_per_second;
  if (const auto slow = of_pace(job, step_ms))
    return *slow;
  if (const auto full = of_full_role(job))
    return *full;
  if (const auto slow = of_checkpoint(job))
    return *slow;
  if (const auto wait = of_wait(job))
    return *wait;
  return of_step(job, step_ms);
}

} // namespace troupe
