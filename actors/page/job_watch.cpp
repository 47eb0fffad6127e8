#include "actors/page/job_watch.hpp"

#include "monitoring/cable_names.hpp"
#include "monitoring/checkpoint_names.hpp"
#include "monitoring/data_names.hpp"
#include "monitoring/names.hpp"
#include "monitoring/process_names.hpp"
#include "monitoring/supervision_names.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>
#include <utility>

namespace troupe {
namespace {

/// Rates are over reports that lie so far apart, where there are such.
constexpr double window_s = 3;
/// A role that says nothing new for so long does nothing.
constexpr double still_s = 3;
/// Looks that lie so far apart are of one trouble still; so is the next look
/// where answers take their time.
constexpr double gap_s = 1;
/// What has been seen so lately still counts.
constexpr double lately_s = 4;

/// What a role reported over a while.
class Change {
public:
  using Totals = std::map<std::string, double>;

  Change(const Totals& before, const Totals& after, double seconds)
    : before_(before), after_(after), seconds_(seconds) {}

  double now(const MetricDescription& metric) const {
    return of(after_, metric.name);
  }
  double rate(const MetricDescription& metric) const {
    return seconds_ > 0 ? difference(metric.name) / seconds_ : unknown;
  }
  /// Of a histogram of seconds: the share of the time that they were.
  double share(const MetricDescription& metric) const {
    return seconds_ > 0
             ? difference(metric.name + std::string{"_sum"}) / seconds_
             : unknown;
  }
  /// Of a histogram of seconds, over what was observed meanwhile.
  double mean_ms(const MetricDescription& metric) const {
    const std::string name = metric.name;
    const auto count = difference(name + "_count");
    return count > 0 ? 1e3 * difference(name + "_sum") / count : unknown;
  }

  double now(const std::string& name) const { return of(after_, name); }
  double rate(const std::string& name) const {
    return seconds_ > 0 ? difference(name) / seconds_ : unknown;
  }
  /// Of a histogram, over all that was ever observed.
  double mean_of_all(const MetricDescription& metric) const {
    const std::string name = metric.name;
    return of(after_, name + "_sum") / of(after_, name + "_count");
  }

private:
  static double of(const Totals& totals, const std::string& name) {
    const auto found = totals.find(name);
    return found == totals.end() ? unknown : found->second;
  }
  double difference(const std::string& name) const {
    return of(after_, name) - of(before_, name);
  }

  const Totals& before_;
  const Totals& after_;
  double seconds_;
};

/// ("worker", 9), so that it stands before ("worker", 10).
std::pair<std::string, uint64_t> order_of(const std::string& role) {
  const auto kind = kind_of(role);
  uint64_t index = 0;
  for (auto at = kind.size() + 1; at < role.size(); ++at)
    if (role[at] >= '0' && role[at] <= '9')
      index = 10 * index + static_cast<uint64_t>(role[at] - '0');
  return {kind, index};
}

/// Of what is told by peers: the name of a total of its own.
std::string of_peer(const MetricDescription& metric, const std::string& peer) {
  return std::string{metric.name} + ' ' + peer;
}

bool is_of_cables(const std::string& name) {
  namespace m = metrics;
  return name == m::link_delivered_bytes_total.name
         || name == m::link_busy_seconds_total.name
         || name == m::link_stalled_seconds.name;
}

std::vector<LinkView> link_views(const std::map<std::string, double>& totals,
                                 const Change& change) {
  namespace m = metrics;
  std::vector<LinkView> out;
  const auto first = of_peer(m::link_busy_seconds_total, "");
  for (auto at = totals.lower_bound(first);
       at != totals.end() && at->first.starts_with(first); ++at) {
    LinkView link;
    link.peer = at->first.substr(first.size());
    link.busy = change.rate(at->first);
    link.delivered =
      change.rate(of_peer(m::link_delivered_bytes_total, link.peer));
    link.stalled_s = change.now(of_peer(m::link_stalled_seconds, link.peer));
    out.push_back(link);
  }
  return out;
}

RoleView role_view(const std::string& role, const Change& change) {
  namespace m = metrics;
  RoleView out;
  out.role = role;
  out.cpu = change.rate(m::process_cpu_seconds_total);
  out.memory = change.now(m::process_resident_memory_bytes);
  out.compute_ms = change.mean_ms(m::compute_duration_seconds);
  out.data_ms = change.mean_ms(m::data_wait_seconds);
  out.decode_ms = change.mean_ms(m::decode_seconds);
  out.pull_ms = change.mean_ms(m::pull_duration_seconds);
  out.push_ms = change.mean_ms(m::push_duration_seconds);
  out.reduce_ms = change.mean_ms(m::all_reduce_wait_seconds);
  if (std::isnan(out.reduce_ms))
    out.reduce_ms = change.mean_ms(m::receive_wait_seconds);
  out.busy = kind_of(role) == "reader"
               ? change.share(m::read_duration_seconds)
               : change.rate(m::shard_busy_seconds_total);
  out.sent = change.rate(m::link_sent_bytes_total);
  out.received = change.rate(m::link_received_bytes_total);
  out.queued = change.now(m::link_queued_bytes);
  return out;
}

/// What the coordinator says of others.
void tell_of_others(const std::vector<ScrapedValue>& values,
                    std::map<std::string, RoleView>& roles) {
  namespace m = metrics;
  std::map<std::string, std::set<std::string>> awaiting;
  const auto of = [&](const std::string& role) -> RoleView& {
    auto& view = roles[role];
    view.role = role;
    return view;
  };
  for (const auto& value : values)
    if (value.name == m::supervised.name) {
      of(label_of(value, "member")).restarts = value.value;
    } else if (value.name == m::left_out.name) {
      auto& view = of(label_of(value, "member"));
      view.left_out = true;
      view.tags.push_back("left out: " + label_of(value, "reason"));
    } else if (value.name == m::waits_for.name) {
      const auto awaited = label_of(value, "awaited");
      const auto waiter = label_of(value, "waiter");
      of(waiter).tags.push_back("waits for " + awaited + ": "
                                + label_of(value, "what"));
      awaiting[awaited].insert(waiter);
    }
  for (const auto& [awaited, by] : awaiting)
    of(awaited).awaited_by = by.size();
}

} // namespace

std::string kind_of(const std::string& role) {
  return role.substr(0, role.find(':'));
}

/// A role's series come from one report, so what differs is another one.
const JobWatch::Reports& JobWatch::keep(const std::string& role, Totals totals,
                                        double now) {
  auto& reports = reports_[role];
  const bool again =
    !reports.empty()
    && std::ranges::any_of(reports.back().totals, [&](const auto& before) {
         const auto after = totals.find(before.first);
         return after != totals.end() && before.first.ends_with("_total")
                && after->second < before.second;
       });
  if (again) // its process is another one, and counts from 0
    reports.clear();
  if (reports.empty() || reports.back().totals != totals)
    reports.push_back({now, std::move(totals)});
  else if (now - reports.back().at > still_s)
    reports.push_back({now, std::move(totals)}); // nothing happened up to here
  while (reports.size() > 2 && reports.back().at - reports[1].at >= window_s)
    reports.pop_front();
  return reports;
}

/// Between two steps nobody waits, however late each of them is.
void JobWatch::remember(const std::vector<ScrapedValue>& values, double now,
                        JobView& job) {
  std::set<std::string> owe; // each once a look, whoever waits for it
  for (const auto& value : values)
    if (value.name == metrics::waits_for.name
        && kind_of(label_of(value, "awaited")) == "reader")
      owe.insert(label_of(value, "awaited"));
  for (const auto& reader : owe)
    owed_.emplace_back(now, reader);
  while (!owed_.empty() && now - owed_.front().first > lately_s)
    owed_.pop_front();
  for (auto& role : job.roles)
    role.owed_samples = static_cast<size_t>(std::ranges::count(
      owed_, role.role, &std::pair<double, std::string>::second));
  if (!job.late.empty()) {
    const auto first_word = [](const std::string& text) {
      return text.substr(0, text.find(' '));
    };
    const auto gap = std::clamp(now - looked_, gap_s, lately_s);
    if (now - late_.first > gap
        || first_word(job.late) != first_word(late_.second))
      late_since_ = now;
    late_ = {now, job.late};
    job.late_s = now - late_since_;
  }
  if (now - late_.first <= lately_s)
    job.was_late = late_.second;
  looked_ = now;
}

JobView JobWatch::look(const std::vector<ScrapedValue>& values,
                       double seconds) {
  namespace m = metrics;
  std::map<std::string, Totals> totals;
  JobView job;
  for (const auto& value : values) {
    if (auto role = label_of(value, "role");
        !role.empty() && role != "exporter")
      if (!value.name.ends_with("_bucket")) {
        const auto peer = is_of_cables(value.name) ? label_of(value, "peer")
                                                   : std::string{};
        totals[role][peer.empty() ? value.name : value.name + ' ' + peer] +=
          value.value;
      }
    if (value.name == m::step_age_seconds.name) {
      job.since_commit_s = value.value;
      job.late = label_of(value, "reason");
    } else if (value.name == m::members.name) {
      const auto state = label_of(value, "state");
      (state == "expected"  ? job.expected
       : state == "present" ? job.present
                            : job.left_out) = value.value;
    }
  }
  std::erase_if(reports_, [&](const auto& known) {
    return !totals.contains(known.first);
  });
  std::map<std::string, RoleView> roles;
  for (auto& [role, now] : totals) {
    const auto& reports = keep(role, std::move(now), seconds);
    const auto& newest = reports.back();
    const auto& oldest = reports.front();
    const Change change{oldest.totals, newest.totals, newest.at - oldest.at};
    if (role == "coordinator") {
      job.step = change.now(m::steps_committed_total);
      job.steps = change.now(m::steps);
      job.data_epoch = change.now(m::data_epoch);
      job.loss = change.now(m::training_loss);
      job.membership_epoch = change.now(m::membership_epoch);
      job.restarts = change.now(m::restarts_total);
      job.steps_per_second = change.rate(m::steps_committed_total);
      job.samples_per_second = change.rate(m::samples_committed_total);
      if (const auto s = change.now(m::checkpoint_under_way_seconds); s > 0)
        job.checkpoint_s = s;
      job.usual_checkpoint_s =
        change.mean_of_all(m::checkpoint_duration_seconds);
    }
    auto& view = roles[role] = role_view(role, change);
    view.links = link_views(newest.totals, change);
  }
  tell_of_others(values, roles);
  for (auto& [role, view] : roles)
    job.roles.push_back(std::move(view));
  std::ranges::sort(job.roles, {},
                    [](const RoleView& view) { return order_of(view.role); });
  remember(values, seconds, job);
  return job;
}

} // namespace troupe
