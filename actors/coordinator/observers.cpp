#include "actors/coordinator/state.hpp"
#include "actors/links/link_endpoint.hpp"
#include "actors/process/measure_text.hpp"
#include "actors/process/steady_ms.hpp"
#include "actors/sockets/endpoint.hpp"
#include "monitoring/metrics.hpp"

#include <cstdio>

// Who is told how the run goes, what members say of themselves, and when the
// coordinator may leave.

namespace troupe {
namespace {

std::string line_of(const DataEpochEnd& end) {
  char text[96];
  std::snprintf(text, sizeof text,
                "data epoch %llu, step %llu: loss %s, %.0f samples/s",
                static_cast<unsigned long long>(end.data_epoch),
                static_cast<unsigned long long>(end.step),
                measure_text(end.loss).c_str(), end.samples_per_second);
  std::string out = text;
  for (const auto& measure : end.evaluation) {
    std::snprintf(text, sizeof text, " %.4f", measure.value);
    out += ", " + measure.name + text;
  }
  return out;
}

/// Where a role is reached; empty: in this process, or on this host alone.
std::string host_of(const PresentRole& role) {
  if (const auto endpoint = parse_endpoint(role.endpoint))
    return endpoint->host;
  const auto links = parse_link_endpoint(role.links);
  return links ? links->host : std::string{};
}

} // namespace

void CoordinatorState::leave() {
  // Nobody may know yet of a coordinator that took over.
  const bool found = ending_.supervised || options_.term == 1;
  const bool alone = present_.empty() && !supervisor_ && observers_.empty()
                     && found;
  if (!alone && Clock::now() <= ending_.leave_deadline)
    return;
  write_end();
  self_->quit();
}

void CoordinatorState::on(const Attach& attach) {
  if (attach.supervises) {
    for (auto role : attach.added)
      reshaping_.supervised(role);
    if (supervisor_
        && caf::actor_cast<caf::strong_actor_ptr>(supervisor_)
             == self_->current_sender())
      return;
    supervisor_ = caf::actor_cast<supervisor_actor>(self_->current_sender());
    ending_.supervised = true;
    self_->monitor(supervisor_);
    if (ending_.outcome)
      self_->send(supervisor_, *ending_.outcome);
    else if (course_.is_stopped())
      self_->send(supervisor_, StopRequest{course_.why()});
    return;
  }
  auto observer = caf::actor_cast<observer_actor>(self_->current_sender());
  self_->monitor(observer);
  observers_.add(observer);
  if (options_.term > 1 && !options_.past) // that line came before it did
    self_->send(observer, Note{back_line(options_.term)});
  if (exporter_) {
    self_->send(observer, Note{"metrics: " + exporter_->url()});
    self_->send(observer, Note{"page: " + exporter_->url("/")});
  }
  for (const auto& line : options_.first_notes)
    self_->send(observer, Note{line});
  if (ending_.outcome)
    self_->send(observer, *ending_.outcome);
}

void CoordinatorState::note(const std::string& line) {
  observers_.tell(Note{line});
  if (options_.page)
    options_.page->add_line(line);
}

void CoordinatorState::tell(const DataEpochEnd& end) {
  observers_.tell(end);
  if (options_.page)
    options_.page->add_line(line_of(end));
}

std::map<RoleId, std::string> CoordinatorState::hosts_of_members() const {
  std::map<RoleId, std::string> out;
  for (const auto& [role, present] : present_)
    out[role] = host_of(present);
  return out;
}

void CoordinatorState::show_members() {
  std::vector<PageMember> members;
  const uint64_t period = job_->options.processes ? sign_ms_ : actor_sign_ms;
  for (const auto& [role, present] : present_) {
    const auto silent = silence_.silent_ms(role, steady_ms());
    members.push_back(
      {to_string(role), host_of(present), true, silent, silent / period});
  }
  for (auto role : absent_roles())
    members.push_back({to_string(role), {}, false});
  options_.page->set_members(std::move(members));
}

void CoordinatorState::on(const MetricsReport& report) {
  silence_.heard(report.role, steady_ms());
  if (report.awaits_samples && present_.contains(report.role))
    lack_samples_[report.role] = {report.readers.begin(), report.readers.end()};
  else
    lack_samples_.erase(report.role);
  if (report.samples.empty())
    return;
  if (report.role.kind == RoleKind::shard)
    for (const auto& sample : report.samples)
      if (sample.name == metrics::shard_busy_seconds_total.name)
        loads_.busy(report.role.index, sample.value, steady_ms());
  if (exporter_)
    exporter_->publish(to_string(report.role), report.samples);
  if (report.peak_memory_bytes > 0)
    record_.peak_memory(report.role, report.peak_memory_bytes);
}

} // namespace troupe
