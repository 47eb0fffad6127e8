#include "actors/coordinator/run_outputs.hpp"

#include "kernels/files/atomic_file.hpp"

namespace troupe {
namespace {

/// The step of the weights in a file; 0 where there are none, or none is told.
uint64_t step_saved_in(const std::string& path) {
  try {
    const auto metadata = read_safetensors_metadata(path);
    const auto step = metadata.find("step");
    return step == metadata.end() ? 0 : std::stoull(step->second);
  } catch (const std::exception&) {
    return 0;
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
  const auto newer = wish.leaves_newer ? step_saved_in(wish.save) : 0;
  const bool aside = newer > wish.step;
  out.weights = save_weights(
    aside
      ? with_suffix(wish.save, ".step-" + std::to_string(wish.step)).string()
      : wish.save,
    weights_of(job, last), weights_metadata(job, wish.step));
  if (aside)
    out.weights->line += " (" + wish.save + " has step " + std::to_string(newer)
                         + ')';
  return out;
}

} // namespace troupe
