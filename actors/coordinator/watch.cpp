#include "actors/coordinator/watch.hpp"

#include "actors/coordinator/state.hpp"
#include "actors/process/steady_ms.hpp"
#include "actors/role/caf_metrics.hpp"
#include "kernels/base/seconds_since.hpp"
#include "monitoring/supervision_names.hpp"

#include <chrono>
#include <utility>

namespace troupe {
namespace {

MetricSample gauge(const MetricDescription& metric, MetricLabels labels,
                   double value) {
  MetricSample out;
  out.kind = metric.kind;
  out.name = metric.name;
  out.help = metric.help;
  out.labels = std::move(labels);
  out.value = value;
  return out;
}

} // namespace

void CoordinatorWatch::restarted(RoleId role, uint32_t left) {
  ++restarts_[role];
  left_ = left;
}

void CoordinatorWatch::committed(uint64_t step, double seconds) {
  constexpr double weight = 0.1; // of the newest step
  usual_ms_ += weight * (1e3 * seconds - usual_ms_);
  if (step < committed_steps_) // done again, which gives nothing back
    return;
  committed_steps_ = step + 1;
  left_ = allowed_;
}

std::string CoordinatorWatch::look(WaitsFor waits, uint64_t step) {
  waits_ = std::move(waits);
  const bool known = waits_.culprits == culprits_;
  culprits_ = waits_.culprits;
  if (known || culprits_.empty())
    return {};
  return "step " + std::to_string(step) + " is late: " + waits_.reason;
}

void CoordinatorWatch::show_supervision(
  const std::set<RoleId>& roles, const std::set<RoleId>& by_hand,
  std::vector<MetricSample>& samples) const {
  for (auto role : roles) {
    const auto count = restarts_.find(role);
    samples.push_back(
      gauge(metrics::supervised,
            {{"member", to_string(role)},
             {"supervisor", by_hand.contains(role) ? "" : "role supervisor"}},
            count == restarts_.end() ? 0 : count->second));
  }
  samples.push_back(gauge(metrics::restarts_left, {}, left_));
  samples.push_back(gauge(metrics::restarts_allowed, {}, allowed_));
}

void CoordinatorWatch::show_members(size_t present, size_t absent,
                                    const std::map<RoleId, std::string>& out,
                                    std::vector<MetricSample>& samples) const {
  const auto count = [&](const char* state, size_t members) {
    samples.push_back(gauge(metrics::members, {{"state", state}},
                            static_cast<double>(members)));
  };
  count("expected", present + absent);
  count("present", present);
  count("left_out", out.size());
  for (const auto& [role, reason] : out)
    samples.push_back(gauge(
      metrics::left_out, {{"member", to_string(role)}, {"reason", reason}}, 1));
}

void CoordinatorWatch::show_waits(double age_seconds,
                                  std::vector<MetricSample>& samples) const {
  samples.push_back(
    gauge(metrics::step_age_seconds, {{"reason", waits_.reason}}, age_seconds));
  for (const auto& wait : waits_.waits)
    samples.push_back(gauge(metrics::waits_for,
                            {{"waiter", to_string(wait.who)},
                             {"awaited", to_string(wait.whom)},
                             {"what", wait.what}},
                            1));
}

StepView CoordinatorState::view_of_step() const {
  using enum Membership::State;
  StepView view;
  const auto state = membership_.state();
  view.stage = state == active    ? StepView::Stage::active
               : state == sealing ? StepView::Stage::sealing
                                  : StepView::Stage::forming;
  view.served = keeps_slices(job_->plan.owner_kind);
  view.leased = async_;
  view.age_ms =
    static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(
                            Clock::now() - touched_)
                            .count());
  view.usual_ms = static_cast<uint64_t>(watch_.usual_ms());
  view.sign_ms = sign_ms_;
  view.absent = membership_.absent();
  for (auto role : absent_roles())
    if (role.kind == RoleKind::reader)
      view.absent_readers.push_back(role);
  const auto step = commits_.committed();
  const auto mesh = job_->plan.mesh();
  for (const auto& [role, present] : present_) {
    if (role.kind == RoleKind::reader)
      view.readers.push_back({role, silence_.silent_ms(role, steady_ms())});
    if (!is_member_kind(role.kind))
      continue;
    StepView::Member member;
    member.role = role;
    member.seals = !seals_.contains(role);
    member.applied = commits_.holds(owner_key(role), step + 1);
    member.silent_ms = silence_.silent_ms(role, steady_ms());
    for (const auto& owned : epoch_plan_.ranks())
      if (owned.worker == role)
        member.computed = commits_.has_leaves(step, owned.ranks);
    if (job_->plan.served && has_model_part(role.kind)) {
      member.pulls = true;
      member.goes_back = mesh.stage_of(role.index) + 1 < mesh.stages;
      member.computed = commits_.has_leaves(step, job_->plan.role(role).ranks);
    }
    if (const auto lacks = lack_samples_.find(role);
        lacks != lack_samples_.end()) {
      member.awaits_samples = true;
      member.readers.assign(lacks->second.begin(), lacks->second.end());
    }
    view.members.push_back(member);
  }
  return view;
}

void CoordinatorState::look_at_waits() {
  const bool runs = course_.is_running() && begun_;
  if (auto line = watch_.look(runs ? waits_for(view_of_step()) : WaitsFor{},
                              steps_ + 1);
      !line.empty())
    note(line);
  if (!exporter_)
    return;
  checkpoints_.show_under_way(*registry_);
  auto samples = caf_metrics(self_->system());
  for (const auto& own : process_metrics())
    samples.push_back(own);
  auto roles = present_roles();
  roles.insert(reshaping_.roles().begin(), reshaping_.roles().end());
  auto by_hand = supervisor_ ? std::set<RoleId>{} : roles;
  for (auto role : roles)
    if (is_guest(role))
      by_hand.insert(role);
  watch_.show_supervision(roles, by_hand, samples);
  samples.push_back(
    gauge(metrics::loss_seconds, {},
          static_cast<double>(silence_.limit_ms(steady_ms())) / 1e3));
  std::map<RoleId, std::string> out;
  const auto absent = absent_roles();
  for (auto role : absent)
    if (const auto* why = left_out_.why(role))
      out.emplace(role, *why);
  watch_.show_members(present_.size(), absent.size(), out, samples);
  watch_.show_waits(runs ? seconds_since(touched_) : 0, samples);
  exporter_->publish("coordinator", std::move(samples));
  if (options_.page)
    show_members();
}

} // namespace troupe
