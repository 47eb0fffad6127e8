#include "apps/settings/places.hpp"

#include "kernels/base/error.hpp"
#include "kernels/checkpoint/write_checkpoint.hpp"
#include "kernels/data/data_options.hpp"
#include "kernels/files/file_list.hpp"
#include "kernels/files/file_url.hpp"
#include "kernels/files/safetensors.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe {
namespace {

namespace fs = std::filesystem;

constexpr int max_links = 40; ///< as the system follows

/// Where a path leads, also through a link to what is not there yet.
fs::path leads_to(const std::string& path) {
  std::error_code failure;
  auto at = fs::absolute(path, failure);
  if (!at.has_filename()) // "folder/"
    at = at.parent_path();
  for (int links = 0; links < max_links && fs::is_symlink(at, failure); ++links)
    at = at.parent_path() / fs::read_symlink(at, failure);
  return fs::weakly_canonical(at, failure);
}

/// What the system says of what a path leads to; nothing where nothing is.
std::optional<struct stat> stat_of(const std::string& path) {
  struct stat about {};
  if (path.empty() || ::stat(path.c_str(), &about) != 0)
    return std::nullopt;
  return about;
}

bool is_same(const struct stat& one, const struct stat& other) {
  return one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

struct Output {
  const char* flag;
  std::string path;
};

std::vector<Output> outputs_of(const Settings& settings) {
  std::vector<Output> outputs{
    {"--save", settings.save},
    {"--report", settings.report},
    {"--summary", settings.summary},
    {"--timeline", settings.timeline},
    {"--journal", settings.journal},
    {"--log-dir", settings.log_dir},
    {"--flight", settings.command == "events" || !settings.records()
                   ? ""
                   : settings.flight},
    {"--checkpoint-dir", settings.checkpoints.dir},
    {"--json", settings.json},
    {"--write-plan", settings.chaos.write_plan},
  };
  if (settings.layout != "hugging_face")
    outputs.push_back({"--out", settings.out});
  else
    for (const auto* name :
         {"model.safetensors", "config.json", "tokenizer.json"})
      outputs.push_back({"--out", (fs::path{settings.out} / name).string()});
  return outputs;
}

/// Weights of an earlier --save: whoever begins with them may replace them, as
/// they are read whole and kept as the checkpoint of step 0 before. A file from
/// elsewhere may hold more than is written in its place.
bool is_of_a_save(const std::string& path) {
  try {
    return read_safetensors_metadata(path).contains("model");
  } catch (const InputError&) {
    return false;
  }
}

/// Compares what is read with the outputs that are files already: the others
/// cannot be written over.
class Inputs {
public:
  explicit Inputs(const Settings& settings) {
    for (auto& output : outputs_of(settings))
      if (const auto about = stat_of(output.path);
          about && S_ISREG(about->st_mode)) {
        auto place = leads_to(output.path);
        there_.push_back({std::move(output), *about, std::move(place)});
      }
  }

  bool none() const { return there_.empty(); }

  void add_file(const std::string& reader, const std::string& path,
                const char* but_for = "") const {
    const auto about = stat_of(path);
    for (const auto& file : there_)
      if (about && is_same(file.about, *about)
          && std::string_view{but_for} != file.output.flag)
        refuse(reader, file.output);
  }

  /// A checkpoint, or a folder of them.
  void add_checkpoints(const std::string& reader,
                       const std::string& folder) const {
    std::error_code failure;
    const auto kept = leads_to(folder);
    for (const auto& file : there_) {
      const auto own = file.place.parent_path();
      if ((own == kept || own.parent_path() == kept)
          && fs::exists(own / manifest_name, failure))
        refuse(reader, file.output);
    }
  }

  /// Files of a folder whose names say what they are.
  template <class Is>
  void
  add_folder(const std::string& reader, const fs::path& folder, Is is) const {
    const auto place = leads_to(folder.string());
    for (const auto& file : there_)
      if (file.place.parent_path() == place
          && is(file.place.filename().string()))
        refuse(reader, file.output);
  }

  /// The same of a folder with a folder a class.
  template <class Is>
  void
  add_classes(const std::string& reader, const fs::path& folder, Is is) const {
    const auto place = leads_to(folder.string());
    for (const auto& file : there_)
      if (file.place.parent_path().parent_path() == place
          && is(file.place.filename().string()))
        refuse(reader, file.output);
  }

private:
  struct File {
    Output output;
    struct stat about;
    fs::path place;
  };

  [[noreturn]] static void refuse(const std::string& reader,
                                  const Output& output) {
    throw UsageError(std::string{output.flag} + " " + output.path + " is what "
                     + reader + " reads; name another file");
  }

  std::vector<File> there_;
};

bool is_of_mnist_or_cifar10(std::string_view name) {
  constexpr std::array<std::string_view, 6> starts{
    "train-images", "train-labels", "t10k-images",
    "t10k-labels",  "data_batch_",  "test_batch.bin"};
  return std::ranges::any_of(starts, [&](std::string_view start) {
    return name.starts_with(start);
  });
}

bool is_image(std::string name) {
  std::ranges::transform(name, name.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
  return name.ends_with(".jpg") || name.ends_with(".jpeg")
         || name.ends_with(".png");
}

/// None where they cannot be listed: who reads them says why.
std::vector<DataFile> files_of(const std::string& where) {
  try {
    return list_files(where);
  } catch (const InputError&) {
    return {};
  }
}

void add_samples(const Inputs& inputs, const std::string& flag,
                 const std::string& text) {
  if (text.empty())
    return;
  const auto spec = parse_data_spec(text);
  for (const auto* key : {"labels", "tokenizer", "columns"})
    if (auto file = option(spec, key))
      inputs.add_file(flag, file->substr(file->starts_with('@') ? 1 : 0));
  const bool is_list = spec.where.starts_with('@');
  if (spec.kind == "synthetic" || is_url(spec.where.substr(is_list ? 1 : 0)))
    return;
  if (is_list)
    inputs.add_file(flag, spec.where.substr(1));
  if (spec.kind == "mnist" || spec.kind == "cifar10")
    return inputs.add_folder(flag, spec.where, is_of_mnist_or_cifar10);
  if (spec.kind == "images")
    return inputs.add_classes(flag, spec.where, is_image);
  for (const auto& file : files_of(spec.where))
    if (!file.is_elsewhere())
      inputs.add_file(flag, file.place());
}

bool is_of_certificates(std::string_view name) {
  return name.ends_with(".pem") || name.ends_with(".key")
         || name == "metrics-token" || name == "revoked";
}

bool is_of_flights(std::string_view name) {
  return name.ends_with(".flight");
}

} // namespace

bool is_one_place(const std::string& one, const std::string& other) {
  if (one.empty() || other.empty())
    return false;
  const auto first = stat_of(one);
  const auto second = stat_of(other);
  if (first && !S_ISREG(first->st_mode) && !S_ISDIR(first->st_mode))
    return false; // a device is given to several on purpose
  if (first && second)
    return is_same(*first, *second);
  const auto place = leads_to(one);
  return !place.empty() && place == leads_to(other);
}

void check_outputs(const Settings& settings) {
  const auto outputs = outputs_of(settings);
  for (size_t i = 0; i < outputs.size(); ++i)
    for (size_t k = i + 1; k < outputs.size(); ++k)
      if (is_one_place(outputs[i].path, outputs[k].path))
        throw UsageError(std::string{outputs[i].flag} + " and "
                         + outputs[k].flag + " name one place, "
                         + outputs[i].path + "; give each its own");
}

void check_inputs(const Settings& settings, const std::string& config) {
  const Inputs inputs{settings};
  if (inputs.none())
    return;
  const auto command = "'troupe " + settings.command + "'";
  inputs.add_file("--config", config);
  inputs.add_file("--model", settings.job.model);
  inputs.add_file("--plugin", settings.job.plugin);
  inputs.add_file("--metrics-token", settings.metrics_token);
  inputs.add_file("--plan", settings.chaos.plan);
  inputs.add_file("--initial-weights", settings.checkpoints.initial,
                  is_of_a_save(settings.checkpoints.initial) ? "--save" : "");
  inputs.add_file("--checkpoint", settings.checkpoint);
  inputs.add_file("--certificates", settings.certificates);
  if (!settings.checkpoint.empty())
    inputs.add_checkpoints("--checkpoint", settings.checkpoint);
  if (!settings.checkpoints.dir.empty())
    inputs.add_checkpoints("--checkpoint-dir", settings.checkpoints.dir);
  if (!settings.checkpoint_folder.empty()) {
    inputs.add_file(command, settings.checkpoint_folder);
    inputs.add_checkpoints(command, settings.checkpoint_folder);
  }
  if (!settings.certificates.empty())
    inputs.add_folder("--certificates", settings.certificates,
                      is_of_certificates);
  if (settings.command == "timeline")
    for (const auto* below : {"", "flight"})
      inputs.add_folder(command, fs::path{settings.events.path} / below,
                        is_of_flights);
  add_samples(inputs, "--data", settings.job.data);
  add_samples(inputs, "--eval-data", settings.job.eval_data);
}

} // namespace troupe
