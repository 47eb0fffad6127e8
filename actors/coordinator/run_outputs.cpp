#include "actors/coordinator/run_outputs.hpp"

#include "kernels/files/atomic_file.hpp"
#include "kernels/files/file_error.hpp"

namespace troupe {
namespace {

/// Why a file may hold weights of a later step than `step`; empty: it holds
/// none, or tells of none. Where it cannot be read that is not known.
std::string may_be_newer(const std::string& path, uint64_t step) {
  try {
    const auto metadata = read_safetensors_metadata(path);
    const auto found = metadata.find("step");
    const auto saved = found == metadata.end() ? 0 : std::stoull(found->second);
    return saved > step ? path + " has step " + std::to_string(saved) : "";
  } catch (const FileError& failure) {
    return says_missing(failure.code()) ? "" : failure.what();
  } catch (const std::exception&) {
    return "";
  }
}

} // namespace

RunOutputs make_outputs(const Job& job, const Snapshot& last,
                        const OutputWish& wish) {
  RunOutputs out;
  if (wish.digests) {
    out.tables = tables_of(job, last);
    out.weights_sha256 = weights_sha256(job, last);
    out.state_sha256 = state_sha256(job, last);
  }
  if (wish.save.empty())
    return out;
  const auto newer = wish.leaves_newer ? may_be_newer(wish.save, wish.step)
                                       : "";
  const bool aside = !newer.empty();
  out.weights = save_weights(
    aside
      ? with_suffix(wish.save, ".step-" + std::to_string(wish.step)).string()
      : wish.save,
    weights_of(job, last), weights_metadata(job, wish.step));
  if (aside)
    out.weights->line += " (" + newer + ')';
  return out;
}

} // namespace troupe
