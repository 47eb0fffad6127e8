#include "actors/journal/history.hpp"

#include "actors/journal/role_text.hpp"
#include "kernels/base/error.hpp"
#include "kernels/files/strict_json.hpp"

#include <algorithm>
#include <cstddef>

namespace troupe {
namespace {

using StrictBody = kernels::StrictJson<>;
using Lists = std::vector<std::vector<uint32_t>>;

/// Whoever counts up to it by ones has to come to an end.
constexpr uint64_t max_steps = uint64_t{1} << 52;

/// Events that whoever shows the run begins with.
constexpr size_t max_newest = 200;

uint64_t bounded(uint64_t steps) {
  if (steps > max_steps)
    throw InputError("there are no " + std::to_string(steps) + " steps");
  return steps;
}

/// A count of steps.
uint64_t steps_in(const StrictBody& body, const char* name) {
  return bounded(body.at(name).get<uint64_t>());
}

RoleId role_of_name(const StrictBody& body, const char* name) {
  return role_from_text(body.at(name).get<std::string>());
}

RoleId role_of(const StrictBody& body) {
  return role_of_name(body, "role");
}

StepPhase phase_of(const StrictBody& body) {
  return step_phase(body.value("phase", std::string{}));
}

void read_epoch(const StrictBody& body, JobHistory& history) {
  history.epoch = body.at("epoch");
  history.replanned = false;
  history.members.clear();
  for (const auto& [name, incarnation] : body.at("members").items())
    history.members[role_from_text(name)] = incarnation.get<uint64_t>();
  history.chains = body.at("chains").get<Lists>();
  history.wanted = body.contains("wanted") ? body.at("wanted").get<Lists>()
                                           : history.chains;
  const auto& period = body.at("consistency");
  history.consistency = {period.at("async"), period.at("staleness"),
                         period.at("period"), steps_in(period, "step"),
                         steps_in(period, "updates")};
  // Roles take one off the other.
  if (history.consistency.updates < history.consistency.step)
    throw InputError("its period has had fewer updates than steps");
  history.period_epoch = body.at("period_epoch");
  history.numeric_classes = body.value("numeric_classes",
                                       std::vector<std::string>{});
  if (body.at("rollback").get<bool>())
    history.steps = steps_in(body, "version");
}

void read_replan(const StrictBody& body, JobHistory& history) {
  role_of_name(body, "gone");
  history.devices = body.at("devices");
  history.layout = body.at("layout");
  history.resume_from = body.at("resume_from");
  history.steps = steps_in(body, "version");
  history.members.clear();
  history.chains.clear();
  history.wanted.clear();
  history.replanned = true;
  history.replanned_in = history.term;
}

void read_counts(const StrictBody& body, JobHistory& history) {
  history.counts.visit([&](const char* name, auto& value) {
    using Value = std::remove_reference_t<decltype(value)>;
    if (const auto& json = body.at(name);
        std::is_floating_point_v<Value> && json.is_null())
      value = static_cast<Value>(unknown_loss);
    else
      value = json.get<Value>();
  });
}

void read_commits(const StrictBody& body, JobHistory& history) {
  history.steps = bounded(steps_in(body, "first") + steps_in(body, "count"));
  read_counts(body, history);
  history.curve.push_back({history.counts.last_commit_ms, history.steps,
                           history.counts.samples, history.counts.last_loss});
}

/// The newest that is open of a role is the one that is over.
void read_recovery(const StrictBody& body, JobHistory& history) {
  const auto role = role_of(body);
  const auto detected = body.at("detected_ms").get<uint64_t>();
  auto found =
    std::ranges::find_if(history.recoveries, [&](const RecoveryRow& x) {
      return x.role == role && x.detected_ms == detected && x.resumed_ms == 0;
    });
  if (found == history.recoveries.end())
    found = history.recoveries.insert(found, RecoveryRow{});
  *found = {body.at("kind"),       role,           phase_of(body), detected,
            body.at("resumed_ms"), body.at("step")};
}

void read_event(const JournalEvent& event, JobHistory& history) {
  if (kernels::nested_deeper(event.body, max_body_depth))
    throw InputError("it is nested too deeply");
  const auto body = StrictBody::parse(event.body);
  const auto& kind = event.kind;
  history.term = std::max(history.term, event.term);
  if (kind == "job") {
    const std::string asked = body.at("asked");
    if (asked != history.asked)
      history.initial = {};
    history.job = body.at("job");
    history.asked = asked;
    history.layout.clear(); // that of a start which was given up
  } else if (kind == "address") {
    history.address = body.at("coordinator");
    history.metrics_address = body.at("metrics");
    history.resume_from = body.at("resume_from");
  } else if (kind == "initial") {
    history.initial = {body.at("weights"), body.at("folder")};
  } else if (kind == "layout") {
    history.layout = event.body;
  } else if (kind == "epoch") {
    read_epoch(body, history);
  } else if (kind == "replan") {
    read_replan(body, history);
  } else if (kind == "commits") {
    read_commits(body, history);
  } else if (kind == "rollback") {
    history.steps = steps_in(body, "version");
    read_counts(body, history);
  } else if (kind == "death") {
    history.recoveries.push_back({"", role_of(body), phase_of(body),
                                  body.at("detected_ms"), 0, body.at("step")});
    if (role_of(body).kind == RoleKind::coordinator)
      history.fault = StepPhase::none; // this was it
  } else if (kind == "recovery") {
    read_recovery(body, history);
  } else if (kind == "joined") {
    history.joined.insert(role_of(body));
    history.left.erase(role_of(body)); // one by hand that came back
  } else if (kind == "left") {
    history.joined.erase(role_of(body));
    history.left.insert(role_of(body));
  } else if (kind == "consistency") {
    history.switches.push_back(
      {body.at("step"), body.at("mode"), event.unix_ms});
  } else if (kind == "change") {
    history.changes.push_back(event.body);
  } else if (kind == "evaluation") {
    history.evaluation = event.body;
  } else if (kind == "fault") {
    history.fault = phase_of(body);
  } else if (kind == "revoked") {
    auto& until = history.revoked[body.at("role").get<std::string>()];
    until = std::max(until, body.at("until").get<int64_t>());
  } else if (kind == "token") {
    history.used_tokens[body.at("nonce").get<std::string>()] =
      body.at("expires").get<int64_t>();
  } else if (kind == "over") {
    history.over = true;
  }
}

} // namespace

std::optional<std::pair<std::string, int64_t>>
revoked_in(const JournalEvent& event) {
  if (event.kind != "revoked")
    return std::nullopt;
  const auto history = read_history({event});
  return *history.revoked.begin();
}

JobHistory read_history(const std::vector<JournalEvent>& events) {
  JobHistory history;
  for (const auto& event : events)
    try {
      read_event(event, history);
    } catch (const std::exception& failure) {
      throw InputError("event " + std::to_string(event.id) + " (" + event.kind
                       + "): " + failure.what());
    }
  for (auto event = events.rbegin();
       event != events.rend() && history.newest.size() < max_newest; ++event)
    if (event->kind != "commits")
      history.newest.push_back(*event);
  std::ranges::reverse(history.newest);
  return history;
}

std::vector<std::string> journal_kinds() {
  return {"coordinator", "job",    "layout",      "address",  "epoch",
          "commits",     "death",  "recovery",    "rollback", "restart",
          "joined",      "left",   "consistency", "change",   "evaluation",
          "fault",       "over",   "disk",        "revoked",  "token",
          "replan",      "initial"};
}

} // namespace troupe
