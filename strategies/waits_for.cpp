#include "strategies/waits_for.hpp"

#include <algorithm>
#include <iterator>

namespace troupe {
namespace {

using Member = StepView::Member;

constexpr uint64_t min_late_ms = 500;
constexpr uint64_t late_factor = 5;
constexpr RoleId coordinator{RoleKind::coordinator, 0};

std::string waited_s(uint64_t ms) {
  return std::to_string(ms / 1'000) + '.' + std::to_string(ms % 1'000 / 100)
         + " s";
}

/// Four signs of life have not come.
template <class Role>
bool is_silent(const StepView& view, const Role& role) {
  return role.silent_ms >= signs_before_loss * view.sign_ms;
}

/// It computes with what others keep, as a worker does.
bool is_worker(const Member& member) {
  return member.role.kind == RoleKind::worker || member.pulls;
}

/// Of the all-reduce strategies nobody reports before a step is over: who is at
/// work there is not known, but that it lacks samples.
bool computes(const StepView& view, const Member& member) {
  return view.served ? !member.computed
                     : is_silent(view, member) || member.awaits_samples;
}

void wait_all(WaitsFor& out, const std::vector<RoleId>& who,
              const std::vector<RoleId>& whom, const char* what) {
  for (auto one : who)
    for (auto other : whom)
      if (one != other)
        out.waits.push_back({one, other, what});
}

/// Takes those out of `roles` that are so; in their order.
template <class Is>
std::vector<RoleId> take_those(std::vector<RoleId>& roles, Is is) {
  const auto found = std::stable_partition(roles.begin(), roles.end(),
                                           [&](RoleId x) { return !is(x); });
  std::vector<RoleId> out(found, roles.end());
  roles.erase(found, roles.end());
  return out;
}

/// Returns those whom all wait for.
std::vector<RoleId> wait_for_step(const StepView& view, WaitsFor& out) {
  std::vector<RoleId> computing;
  std::vector<RoleId> done;
  std::vector<RoleId> behind;
  const auto says_nothing = [&](RoleId role) {
    return std::ranges::any_of(view.members, [&](const Member& member) {
      return member.role == role && is_silent(view, member);
    });
  };
  for (const auto& member : view.members) {
    if (is_worker(member))
      (computes(view, member) ? computing : done).push_back(member.role);
    if (view.served && !is_worker(member) && !member.applied)
      behind.push_back(member.role);
  }
  if (!view.served) {
    wait_all(out, done, computing, "its gradient");
    return computing;
  }
  const auto goes_back = [&](RoleId role) {
    return std::ranges::find(view.members, role, &Member::role)->goes_back;
  };
  // What a silent worker has computed may not have left it; else it is a stage
  // that is not known to be done.
  if (computing.empty() && !behind.empty()
      && std::ranges::none_of(behind, says_nothing)) {
    computing = take_those(done, says_nothing);
    if (computing.empty())
      computing = take_those(done, goes_back);
  }
  wait_all(out, done, behind, "the next version");
  if (computing.empty())
    return behind;
  // They may have nothing to compute with yet.
  if (std::ranges::none_of(computing, says_nothing))
    if (std::vector<RoleId> gone;
        std::ranges::copy_if(behind, std::back_inserter(gone), says_nothing),
        !gone.empty()) {
      wait_all(out, computing, gone, "the next version");
      return gone;
    }
  wait_all(out, behind, computing, "its gradient");
  return computing;
}

/// Of whom a member waits for samples: of those that it says, as far as the job
/// has them or lacks them, else of all that are absent.
std::vector<RoleId> asked_by(const StepView& view, const Member& member) {
  std::vector<RoleId> out;
  for (auto reader : member.readers)
    if (std::ranges::find(view.readers, reader, &StepView::Reader::role)
          != view.readers.end()
        || std::ranges::find(view.absent_readers, reader)
             != view.absent_readers.end())
      out.push_back(reader);
  return out.empty() ? view.absent_readers : out;
}

/// Who waits for samples waits for its readers: they are awaited in its place.
void wait_for_samples(const StepView& view, std::vector<RoleId>& awaited,
                      WaitsFor& out) {
  std::vector<RoleId> all;
  for (const auto& member : view.members) {
    if (!member.awaits_samples || is_silent(view, member))
      continue;
    const auto readers = asked_by(view, member);
    wait_all(out, {member.role}, readers, "samples");
    // One that was done early waits for samples of the next step.
    if (readers.empty()
        || (std::erase(awaited, member.role) == 0 && !view.leased))
      continue;
    for (auto reader : readers)
      if (std::ranges::find(all, reader) == all.end())
        all.push_back(reader);
  }
  // Who was asked first may have been silent, and another one is asked now.
  for (const auto& reader : view.readers)
    if (!all.empty() && is_silent(view, reader)
        && std::ranges::find(all, reader.role) == all.end())
      all.push_back(reader.role);
  awaited.insert(awaited.end(), all.begin(), all.end());
}

std::string reason_of(const StepView& view, const StepView::Reader& reader) {
  if (is_silent(view, reader))
    return " is silent for " + waited_s(reader.silent_ms);
  return " has not served samples";
}

std::string reason_of(const StepView& view, const Member& member) {
  if (is_silent(view, member))
    return " is silent for " + waited_s(member.silent_ms);
  if (view.stage == StepView::Stage::active && member.awaits_samples)
    return " waits for samples";
  if (view.stage == StepView::Stage::sealing)
    return " has not sealed";
  return is_worker(member) ? " computes" : " has not applied it";
}

/// Who is silent explains more than who is at work.
void name_culprits(const StepView& view, std::vector<RoleId> awaited,
                   WaitsFor& out) {
  const auto says_nothing = [&](RoleId role) {
    const auto its = [&](const auto& one) {
      return one.role == role && is_silent(view, one);
    };
    return std::ranges::any_of(view.members, its)
           || std::ranges::any_of(view.readers, its);
  };
  if (std::ranges::any_of(awaited, says_nothing))
    std::erase_if(awaited, [&](RoleId role) { return !says_nothing(role); });
  out.culprits = awaited;
  for (auto role : awaited) {
    out.reason += (out.reason.empty() ? "" : ", ") + to_string(role);
    const auto member = std::ranges::find(view.members, role, &Member::role);
    const auto reader = std::ranges::find(view.readers, role,
                                          &StepView::Reader::role);
    out.reason += member != view.members.end()   ? reason_of(view, *member)
                  : reader != view.readers.end() ? reason_of(view, *reader)
                                                 : " is not there";
  }
}

} // namespace

WaitsFor waits_for(const StepView& view) {
  WaitsFor out;
  out.late = view.age_ms > std::max(min_late_ms, late_factor * view.usual_ms);
  std::vector<RoleId> awaited;
  if (view.stage == StepView::Stage::forming) {
    awaited = view.absent;
    wait_all(out, {coordinator}, awaited, "its return");
  } else if (view.stage == StepView::Stage::sealing) {
    for (const auto& member : view.members)
      if (member.seals)
        awaited.push_back(member.role);
    wait_all(out, {coordinator}, awaited, "its seal");
  } else {
    if (!view.leased)
      awaited = wait_for_step(view, out);
    wait_for_samples(view, awaited, out);
  }
  if (out.late)
    name_culprits(view, std::move(awaited), out);
  return out;
}

} // namespace troupe
