#include "apps/chaos/endings.hpp"

#include "kernels/base/error.hpp"
#include "kernels/checkpoint/read_checkpoint.hpp"
#include "kernels/files/file_error.hpp"
#include "kernels/files/safetensors.hpp"

#include <algorithm>
#include <cerrno>
#include <filesystem>

namespace troupe {
namespace {

namespace fs = std::filesystem;

constexpr size_t longer_than_names = 300;

std::string aside(const std::string& path) {
  return path + ".aside";
}

} // namespace

ChaosEnding judge_ending(ChaosKind kind, const nlohmann::ordered_json& summary,
                         const ChaosSaved& saved) {
  ChaosEnding ending{kind, summary.at("steps").get<uint64_t>(), 0, {}};
  const auto steps = std::to_string(ending.steps);
  const auto compare = [&](const std::string& what, const std::string& has) {
    if (has != steps)
      ending.failures.push_back(to_string(kind) + ": " + what + " has step "
                                + has + ", and " + steps + " were made");
  };
  try {
    compare("the file of weights",
            read_safetensors_metadata(saved.weights).at("step"));
    const auto found = find_checkpoints(saved.checkpoints);
    compare("the newest checkpoint",
            found.empty() ? "none" : std::to_string(found.front().step));
  } catch (const std::exception& failure) {
    ending.failures.emplace_back(failure.what());
  }
  return ending;
}

void judge_resumption(const nlohmann::ordered_json& summary,
                      ChaosEnding& ending) {
  const auto& from = summary.at("resumed_from");
  if (from.is_null() || from.at("step") != ending.steps)
    ending.failures.push_back(
      to_string(ending.kind) + ": the job ended after step "
      + std::to_string(ending.steps) + " and went on from "
      + (from.is_null() ? "its beginning" : from.at("step").dump()));
}

UnreadableCheckpoints::UnreadableCheckpoints(const std::string& folder,
                                             Which which) {
  if (which == Which::folder) {
    paths_.push_back(folder);
  } else {
    for (const auto& found : find_checkpoints(folder))
      if (which == Which::all || paths_.empty())
        paths_.push_back(found.folder + "/manifest.json");
  }
  for (const auto& path : paths_) {
    fs::rename(path, aside(path));
    fs::create_symlink(std::string(longer_than_names, 'x'), path);
  }
}

UnreadableCheckpoints::~UnreadableCheckpoints() {
  std::error_code ignored; // the job that goes on says what is not there
  for (const auto& path : paths_)
    if (fs::is_symlink(fs::symlink_status(path, ignored))) {
      fs::remove(path, ignored);
      fs::rename(aside(path), path, ignored);
    }
}

std::string UnreadableCheckpoints::reason() {
  return reason_of(ENAMETOOLONG);
}

CheckpointListing list_checkpoints(const std::string& folder) {
  CheckpointListing out;
  for (const auto& found : find_checkpoints(folder))
    for (const auto& file : fs::directory_iterator{found.folder})
      out.emplace_back(file.path().string(), file.file_size());
  std::ranges::sort(out);
  return out;
}

} // namespace troupe
