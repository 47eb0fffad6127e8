#include "apps/commands/weights_model.hpp"

#include "kernels/base/error.hpp"

namespace troupe {

std::string model_of(const Settings& settings, const KeptModel& kept) {
  if (settings.given.count("model") > 0)
    return settings.job.model;
  if (kept.model.empty())
    throw InputError(settings.checkpoint
                     + ": does not say of which model it is; add --model");
  return kept.text;
}

} // namespace troupe
