#include "apps/process/followed_journal.hpp"

#include "actors/journal/journal_file.hpp"
#include "kernels/base/error.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <utility>

namespace troupe {

FollowedJournal::FollowedJournal(std::string path, const Plan& plan)
  : path_(std::move(path)),
    members_(plan.of_kind(RoleKind::worker).size()
             + plan.of_kind(RoleKind::shard).size()
             + plan.of_kind(RoleKind::stage).size()
             + plan.of_kind(RoleKind::tensor).size()),
    parts_(has_model_part(plan.computing())),
    chain_(plan.owner_kind == RoleKind::shard ? plan.chain : 0) {}

void FollowedJournal::read() {
  std::vector<JournalEvent> events;
  try {
    events = JournalFile{path_, JournalFile::Open::read}.events();
  } catch (const InputError&) {
    if (seen_ > 0 && !std::filesystem::exists(path_ + ".broken"))
      throw;
    return; // it is being made, or waits for space
  }
  for (const auto& event : events) {
    if (event.id <= seen_)
      continue;
    seen_ = event.id;
    take(event);
  }
}

void FollowedJournal::take(const JournalEvent& event) {
  const auto& kind = event.kind;
  const auto body = nlohmann::json::parse(event.body);
  if (kind == "commits") {
    steps_ms_ = event.unix_ms;
    steps_ = body.at("first").get<uint64_t>()
             + body.at("count").get<uint64_t>();
  } else if (kind == "address") {
    coordinator_ = body.at("coordinator");
  } else if (kind == "death") {
    whole_ = false;
    const bool worker =
      body.at("role").get<std::string>().starts_with("worker:");
    if (worker && workers_ > 0)
      workers_at_loss_.push_back(workers_);
  } else if (kind == "restart") {
    const auto how = body.at("how").get<std::string>();
    lacked_memory_ += how.find("out of memory") != std::string::npos ? 1 : 0;
  } else if (kind == "epoch") {
    ++epochs_;
    workers_ = 0;
    for (const auto& [role, incarnation] : body.at("members").items())
      workers_ += role.starts_with("worker:") ? 1 : 0;
    const auto& chains = body.at("chains");
    whole_ = body.at("members").size() == members_
             && std::ranges::all_of(chains, [&](const auto& replicas) {
                  return chain_ == 0 || replicas.size() == chain_;
                });
  } else if (kind == "recovery") {
    recoveries_.push_back({body.at("kind"), body.at("role"),
                           body.at("detected_ms"), body.at("resumed_ms")});
  }
}

std::optional<FollowedJournal::Recovery>
FollowedJournal::recovery_of(const std::string& role, uint64_t since_ms) const {
  for (const auto& recovery : recoveries_)
    if (recovery.role == role && recovery.detected_ms >= since_ms)
      return recovery;
  return std::nullopt;
}

uint64_t FollowedJournal::leaves_of_the_lost(uint32_t virtual_ranks,
                                             bool by_parts) const {
  if (parts_ || by_parts)
    return epochs_ > 0 ? (epochs_ - 1) * virtual_ranks : 0;
  uint64_t sum = 0;
  for (auto workers : workers_at_loss_)
    sum += (virtual_ranks + workers - 1) / workers;
  return sum;
}

} // namespace troupe
