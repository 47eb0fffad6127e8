#include "actors/coordinator/saved_weights.hpp"

#include "kernels/base/error.hpp"
#include "kernels/files/atomic_file.hpp"

#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <filesystem>

namespace troupe {
namespace {

namespace fs = std::filesystem;

/// The fewest digits that are read back as the same number.
std::string shortest(double value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value);
  return {text.data(), end.ptr};
}

std::vector<fs::path> other_folders() {
  std::vector<fs::path> out;
  std::error_code failure;
  if (auto here = fs::current_path(failure); !failure)
    out.push_back(std::move(here));
  if (const auto* home = std::getenv("HOME"); home != nullptr && *home != '\0')
    out.emplace_back(home);
  if (auto temporary = fs::temp_directory_path(failure); !failure)
    out.push_back(std::move(temporary));
  return out;
}

} // namespace

std::map<std::string, std::string> weights_metadata(const Job& job,
                                                    uint64_t step) {
  const auto& options = job.options;
  std::map<std::string, std::string> out{
    {"format", "pt"}, {"model", options.model}, {"step", std::to_string(step)}};
  constexpr size_t max_text = 1 << 20; // of a header that is read whole
  if (job.graph.text != options.model  // a file's, which may change
      && job.graph.text.size() <= max_text)
    out["model_text"] = job.graph.text;
  if (options.eval_fraction > 0) {
    out["data"] = options.data;
    out["eval_fraction"] = shortest(options.eval_fraction);
  }
  const auto& sample = job.graph.sample;
  out["label"] = to_string(sample.label);
  if (sample.label == LabelKind::classes)
    out["classes"] = std::to_string(sample.classes);
  if (!job.columns.empty())
    out["columns"] = job.columns;
  if (!job.data_fit.empty())
    out["data_fit"] = job.data_fit;
  return out;
}

SavedWeights save_weights(const std::string& path,
                          const std::vector<NamedTensor>& weights,
                          const std::map<std::string, std::string>& metadata) {
  std::string why;
  try {
    write_safetensors(path, weights, metadata);
    return {"weights saved to " + path, true};
  } catch (const InputError& failure) {
    why = failure.what();
  }
  const auto suffix = ".rescued-" + std::to_string(::getpid()) + ".safetensors";
  for (const auto& folder : other_folders()) {
    const auto place =
      with_suffix(folder / fs::path{path}.stem(), suffix).string();
    try {
      write_safetensors(place, weights, metadata);
      return {"weights saved to " + place + " instead: " + why, false};
    } catch (const InputError&) { // `why` is what can be mended
    }
  }
  return {"weights were not saved, nor anywhere else: " + why, false};
}

EndOfOutputs end_of_outputs(const std::optional<SavedWeights>& weights,
                            const std::string& checkpoint,
                            const std::string& failure) {
  EndOfOutputs out;
  const auto add = [&out](const std::string& what, const char* between) {
    out.line += (out.line.empty() ? "" : between) + what;
  };
  if (!failure.empty())
    add("the last checkpoint is missing: " + failure, "");
  if (weights && !weights->as_asked)
    add(weights->line, "; ");
  out.complete = out.line.empty();
  const char* between = out.complete ? ", " : "; ";
  if (weights && weights->as_asked)
    add(weights->line, between);
  if (!checkpoint.empty())
    add("checkpoint in " + checkpoint, between);
  if (out.line.empty())
    out.line = "nothing was saved (no --save)";
  return out;
}

} // namespace troupe
