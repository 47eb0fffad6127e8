#include "actors/journal/job_journal.hpp"

#include <nlohmann/json.hpp>

#include <chrono>
#include <utility>

namespace troupe {
namespace {

using Json = nlohmann::json;

Json json_of(const RecoveryRow& row) {
  Json body{{"role", to_string(row.role)},
            {"step", row.step},
            {"detected_ms", row.detected_ms}};
  if (row.phase != StepPhase::none)
    body["phase"] = to_string(row.phase);
  return body;
}

void add_counts(RunCounts counts, Json& body) {
  counts.visit(
    [&](const char* name, const auto& value) { body[name] = value; });
}

} // namespace

uint64_t unix_ms() {
  return static_cast<uint64_t>(
    std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::system_clock::now().time_since_epoch())
      .count());
}

void JobJournal::write(const std::string& kind, const Json& body,
                       std::function<void()> synced) {
  if (sink_)
    sink_->append({0, unix_ms(), term_, kind, body.dump()}, std::move(synced));
  else if (synced)
    synced();
}

void JobJournal::note(const std::string& kind, const Json& body) {
  write(kind, body);
}

void JobJournal::began(bool again, std::function<void()> synced) {
  write("coordinator", {{"term", term_}, {"again", again}}, std::move(synced));
}

void JobJournal::job(uint64_t job, const std::string& asked) {
  write("job", {{"job", job}, {"asked", asked}});
}

void JobJournal::initial(const std::string& weights, const std::string& folder,
                         std::function<void()> synced) {
  write("initial", {{"weights", weights}, {"folder", folder}},
        std::move(synced));
}

void JobJournal::address(const std::string& coordinator,
                         const std::string& metrics,
                         const std::string& resume_from) {
  write("address", {{"coordinator", coordinator},
                    {"metrics", metrics},
                    {"resume_from", resume_from}});
}

void JobJournal::epoch(const EpochRow& row, std::function<void()> synced) {
  if (!sink_) {
    synced();
    return;
  }
  Json members = Json::object();
  for (const auto& [role, incarnation] : row.members)
    members[to_string(role)] = incarnation;
  Json body{{"epoch", row.epoch},
            {"version", row.version},
            {"rollback", row.rollback},
            {"members", std::move(members)},
            {"chains", row.chains},
            {"consistency",
             {{"mode", to_string(row.consistency)},
              {"async", row.consistency.async},
              {"staleness", row.consistency.staleness},
              {"period", row.consistency.period},
              {"step", row.consistency.step},
              {"updates", row.consistency.updates}}},
            {"period_epoch", row.period_epoch},
            {"reason", row.reason}};
  if (row.wanted != row.chains)
    body["wanted"] = row.wanted;
  if (!row.numeric_classes.empty())
    body["numeric_classes"] = row.numeric_classes;
  write("epoch", body, std::move(synced));
}

void JobJournal::replanned(const ReplanRow& row, std::function<void()> synced) {
  write("replan",
        {{"gone", to_string(row.gone)},
         {"devices", row.devices},
         {"layout", row.layout},
         {"resume_from", row.resume_from},
         {"version", row.version},
         {"reason", row.reason}},
        std::move(synced));
}

void JobJournal::committed(uint64_t step) {
  if (!sink_)
    return;
  if (steps_ == 0)
    first_ = step;
  steps_ = step + 1 - first_;
}

void JobJournal::flush(RunCounts counts) {
  if (steps_ == 0)
    return;
  Json body{{"first", first_}, {"count", std::exchange(steps_, 0)}};
  add_counts(counts, body);
  write("commits", body);
}

void JobJournal::death(const RecoveryRow& row) {
  write("death", json_of(row));
}

void JobJournal::recovery(const RecoveryRow& row) {
  auto body = json_of(row);
  body["kind"] = row.kind;
  body["resumed_ms"] = row.resumed_ms;
  write("recovery", body);
}

void JobJournal::rolled_back(uint64_t version, uint64_t undone,
                             const std::string& reason, RunCounts counts) {
  steps_ = 0; // they are undone
  Json body{{"version", version}, {"undone", undone}, {"reason", reason}};
  add_counts(counts, body);
  write("rollback", body);
}

void JobJournal::restarted(RoleId role, const std::string& how) {
  write("restart", {{"role", to_string(role)}, {"how", how}});
}

void JobJournal::joined(RoleId role) {
  write("joined", {{"role", to_string(role)}});
}

void JobJournal::left(RoleId role, std::function<void()> synced) {
  write("left", {{"role", to_string(role)}}, std::move(synced));
}

void JobJournal::switched(uint64_t step, const std::string& mode) {
  write("consistency", {{"step", step}, {"mode", mode}});
}

void JobJournal::changed(const std::string& json) {
  if (!json.empty())
    write("change", Json::parse(json));
}

void JobJournal::evaluated(
  uint64_t version, uint64_t samples,
  const std::vector<std::pair<std::string, double>>& measures) {
  auto list = Json::array();
  for (const auto& [name, value] : measures)
    list.push_back({{"name", name}, {"value", value}});
  write("evaluation", {{"version", version},
                       {"samples", samples},
                       {"measures", std::move(list)}});
}

void JobJournal::fault(StepPhase phase, std::function<void()> synced) {
  write("fault", {{"role", "coordinator"}, {"phase", to_string(phase)}},
        std::move(synced));
}

void JobJournal::revoked(const std::string& member, int64_t until,
                         std::function<void()> synced) {
  write("revoked", {{"role", member}, {"until", until}}, std::move(synced));
}

void JobJournal::token_used(const std::string& member, const std::string& nonce,
                            int64_t expires, std::function<void()> synced) {
  write("token", {{"role", member}, {"nonce", nonce}, {"expires", expires}},
        std::move(synced));
}

void JobJournal::over(int status, const std::string& line) {
  write("over", {{"status", status}, {"line", line}});
}

} // namespace troupe
