#include "apps/followed_journal.hpp"

#include "actors/journal/journal_file.hpp"
#include "kernels/error.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

namespace troupe {

FollowedJournal::FollowedJournal(std::string path, const Plan& plan)
  : path_(std::move(path)),
    members_(plan.of_kind(RoleKind::worker).size()
             + plan.of_kind(RoleKind::shard).size()),
    chain_(plan.owner_kind == RoleKind::shard ? plan.chain : 0) {}

void FollowedJournal::read() {
  std::vector<JournalEvent> events;
  try {
    events = JournalFile{path_, JournalFile::Open::read}.events();
  } catch (const InputError&) {
    if (seen_ > 0)
      throw;
    return; // it is being made
  }
  for (const auto& event : events) {
    if (event.id <= seen_)
      continue;
    seen_ = event.id;
    take(event.kind, event.body);
  }
}

void FollowedJournal::take(const std::string& kind, const std::string& text) {
  const auto body = nlohmann::json::parse(text);
  if (kind == "commits") {
    steps_ = body.at("first").get<uint64_t>()
             + body.at("count").get<uint64_t>();
  } else if (kind == "death") {
    whole_ = false;
  } else if (kind == "epoch") {
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

} // namespace troupe
