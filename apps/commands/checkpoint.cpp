#include "actors/job/trained_model.hpp"
#include "apps/settings/commands.hpp"
#include "kernels/checkpoint/read_checkpoint.hpp"
#include "kernels/checkpoint/write_checkpoint.hpp"
#include "kernels/columns/fitted_columns.hpp"
#include "kernels/files/atomic_file.hpp"
#include "kernels/files/file_error.hpp"
#include "kernels/files/safetensors.hpp"
#include "kernels/files/shown_text.hpp"
#include "kernels/graph/hugging_face.hpp"

#include <cstdio>
#include <filesystem>
#include <span>

// `troupe checkpoint ls|verify|export`: what a job left in its folder.

namespace troupe {
namespace {

namespace fs = std::filesystem;

/// The checkpoints of a folder of them, newest first, or the one that the
/// folder is.
std::vector<std::string> checkpoints_in(const std::string& folder) {
  std::error_code failure;
  if (!fs::is_directory(folder, failure))
    throw InputError(folder
                     + ": is no folder; name the --checkpoint-dir of a "
                       "run");
  if (fs::exists(fs::path{folder} / manifest_name, failure))
    return {folder};
  std::vector<std::string> found;
  for (const auto& checkpoint : find_checkpoints(folder))
    found.push_back(checkpoint.folder);
  if (found.empty())
    throw InputError(folder
                     + ": holds no checkpoints; name the "
                       "--checkpoint-dir of a run");
  return found;
}

std::string megabytes(uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f MB", static_cast<double>(bytes) / 1e6);
  return text;
}

std::string shown(const CheckpointFacts& facts, const std::string& name) {
  for (const auto& [known, value] : facts)
    if (known == name)
      return shown_text(value);
  return "?";
}

std::string classes_of(const CheckpointManifest& manifest) {
  return shown(manifest.settings, numeric_classes_setting);
}

/// The parameters, whose file no tensor is in that is not one.
std::vector<NamedTensor> parameters_of(const CheckpointReader& reader) {
  std::vector<NamedTensor> out;
  for (const auto& tensor : reader.manifest().tensors) {
    if (tensor.file != "parameters.safetensors")
      continue;
    NamedTensor values{tensor.name, tensor.shape, {}};
    values.values.resize(tensor.bytes / sizeof(float));
    reader.read(tensor.name, 0, values.values);
    out.push_back(std::move(values));
  }
  return out;
}

bool has_tables(const CheckpointReader& reader) {
  for (const auto& file : reader.manifest().files)
    if (file.name == "tables.safetensors")
      return true;
  return false;
}

/// What cannot be read may be whole.
const char* kind_of(const InputError& failure) {
  const auto* call = dynamic_cast<const FileError*>(&failure);
  return call != nullptr && !says_missing(call->code()) ? "unreadable"
                                                        : "damaged";
}

int list(const std::string& folder) {
  const auto checkpoints = checkpoints_in(folder);
  std::printf("%-14s %-21s %10s  %-9s %-9s %s, %s\n", "step", "written", "size",
              "why", "optimizer", "model", "numeric class");
  for (const auto& path : checkpoints) {
    try {
      const CheckpointReader reader{path};
      const auto& manifest = reader.manifest();
      std::printf("%-14llu %-21s %10s  %-9s %-9s %s, %s\n",
                  static_cast<unsigned long long>(manifest.step),
                  shown_text(manifest.written_at).c_str(),
                  megabytes(manifest.bytes()).c_str(),
                  shown_text(manifest.cause).c_str(),
                  shown(manifest.facts, "optimizer").c_str(),
                  shown(manifest.facts, "model").c_str(),
                  classes_of(manifest).c_str());
    } catch (const InputError& failure) {
      std::printf("%s: %s\n", kind_of(failure),
                  shown_text(failure.what()).c_str());
    }
  }
  return 0;
}

/// Hashes are over whole tables, of which a checkpoint has the rows that were
/// touched.
std::string digest_of(const CheckpointReader& reader) {
  return has_tables(reader)
           ? "sparse tables by rows"
           : "weights_sha256 " + tensors_sha256(parameters_of(reader));
}

int verify(const std::string& folder) {
  std::string first;
  const auto bad = [&](const std::string& line, const char* kind) {
    std::printf("%s: %s\n", kind, shown_text(line).c_str());
    if (first.empty())
      first = line;
  };
  for (const auto& path : checkpoints_in(folder)) {
    try {
      const CheckpointReader reader{path};
      const auto damages = reader.damages();
      for (const auto& line : damages)
        bad(line, "damaged");
      if (damages.empty())
        std::printf("whole: %s, step %llu, %zu tensors, %s, %s, %s\n",
                    shown_text(path).c_str(),
                    static_cast<unsigned long long>(reader.manifest().step),
                    reader.manifest().tensors.size(),
                    megabytes(reader.manifest().bytes()).c_str(),
                    digest_of(reader).c_str(),
                    classes_of(reader.manifest()).c_str());
    } catch (const InputError& failure) {
      bad(failure.what(), kind_of(failure));
    }
  }
  if (!first.empty())
    throw InputError(first);
  return 0;
}

int export_weights(const std::string& folder, const std::string& out) {
  const CheckpointReader reader{checkpoints_in(folder).front()};
  if (const auto damages = reader.damages(); !damages.empty())
    throw InputError(damages.front() + "; export another");
  if (has_tables(reader))
    throw InputError(reader.folder()
                     + ": has sparse tables by rows, not whole; resume it with "
                       "--save FILE instead, which writes all of them");
  const auto weights = parameters_of(reader);
  write_safetensors(
    out, weights,
    read_safetensors_metadata(reader.folder() + "/parameters.safetensors"));
  std::printf("step %llu of %s written to %s, weights_sha256 %s\n",
              static_cast<unsigned long long>(reader.manifest().step),
              reader.folder().c_str(), out.c_str(),
              tensors_sha256(weights).c_str());
  return 0;
}

/// Of a folder of checkpoints, or a file of --save.
int export_for_transformers(const std::string& path, const std::string& out) {
  const auto kept = kept_model(path);
  if (kept.model.empty())
    throw InputError(path + ": does not say of which model it is");
  SampleShape shape;
  shape.label = LabelKind::tokens;
  shape.vocabulary = vocabulary_of(kept.text, path, kept);
  const auto trained = load_trained_model(kept.text, shape, path);
  const Layout layout{trained.graph};
  std::vector<NamedTensor> tensors;
  for (size_t i = 0; i < trained.graph.parameters.size(); ++i) {
    const auto& parameter = trained.graph.parameters[i];
    const auto* at = trained.parameters.data() + layout.offsets[i];
    tensors.push_back(
      {parameter.name, parameter.shape, {at, at + parameter.size()}});
  }
  const auto model = to_hugging_face(trained.graph, tensors);
  std::error_code failure;
  fs::create_directories(out, failure);
  if (!fs::is_directory(out, failure))
    throw InputError("--out " + out
                     + ": no folder can be made there; name another place");
  const auto tokenizer = out + "/tokenizer.json";
  const bool knows_tokens = kept.columns && !kept.columns->tokenizer.empty();
  if (!knows_tokens && fs::exists(tokenizer, failure))
    throw InputError(tokenizer
                     + ": is of other weights, as these know none; "
                       "name another --out");
  write_safetensors(out + "/model.safetensors", model.tensors,
                    {{"format", "pt"}});
  write_atomically(out + "/config.json",
                   {std::as_bytes(std::span{model.config})});
  if (knows_tokens)
    write_atomically(tokenizer,
                     {std::as_bytes(std::span{kept.columns->tokenizer})});
  std::printf("%zu tensors written to %s, for transformers\n",
              model.tensors.size(), out.c_str());
  return 0;
}

} // namespace

int run_checkpoint(const Settings& settings) {
  const auto& folder = settings.checkpoint_folder;
  if (settings.command == "checkpoint ls")
    return list(folder);
  if (settings.command == "checkpoint verify")
    return verify(folder);
  if (settings.layout == "hugging_face")
    return export_for_transformers(folder, settings.out);
  return export_weights(folder, settings.out);
}

} // namespace troupe
