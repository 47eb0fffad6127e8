#pragma once

#include "apps/chaos/verdict.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

/// What a job leaves that it goes on from.
struct ChaosSaved {
  std::string weights;     ///< file
  std::string checkpoints; ///< folder
};

/// Holds a job that a fault has ended against its summary: all steps that it
/// made were saved.
ChaosEnding judge_ending(ChaosKind kind, const nlohmann::ordered_json& summary,
                         const ChaosSaved& saved);

/// Holds the job that went on against that.
void judge_resumption(const nlohmann::ordered_json& summary,
                      ChaosEnding& ending);

/// Checkpoints that nobody can read as long as this lives, root neither: their
/// manifests, or their folder, have names that lead to one that is too long for
/// any file system. Nothing of them is changed.
class UnreadableCheckpoints {
public:
  enum class Which : uint8_t { newest, folder, all };

  /// Errors: std::filesystem::filesystem_error.
  UnreadableCheckpoints(const std::string& folder, Which which);
  ~UnreadableCheckpoints();
  UnreadableCheckpoints(const UnreadableCheckpoints&) = delete;
  UnreadableCheckpoints& operator=(const UnreadableCheckpoints&) = delete;

  /// The system's reason why they cannot be read.
  static std::string reason();

private:
  std::vector<std::string> paths_;
};

/// What a folder of checkpoints holds: each file with its size, in order.
using CheckpointListing = std::vector<std::pair<std::string, uint64_t>>;
CheckpointListing list_checkpoints(const std::string& folder);

} // namespace troupe
