#include "actors/job/memory_need.hpp"
#include "apps/settings/commands.hpp"
#include "kernels/base/control_group.hpp"
#include "kernels/base/error.hpp"

#include <cstdio>

namespace troupe {

int run_plan(const Settings& settings) {
  // How many samples there are changes the length of a run, not its plan; their
  // shape does change the plan of a model that fits itself to them.
  auto job = settings.job.data.empty()
               ? Job{settings.job, settings.job.global_batch}
               : Job{settings.job, *load_job_data(settings.job).train};
  std::fputs(to_table(job.plan).c_str(), stdout);
  uint64_t bytes = 0;
  std::printf("\nmemory, at least\n");
  for (const auto& need : memory_needs(job)) {
    std::printf("  %s\n", to_string(need).c_str());
    bytes += need.bytes();
  }
  std::printf("  all: %s\n", in_units(bytes).c_str());
  if (const auto limit = job.options.cut.device_memory; limit > 0)
    std::printf("  limit of each: %s\n", in_units(limit).c_str());
  if (const auto why = device_misfit(job); !why.empty())
    throw InputError(why);
  return 0;
}

} // namespace troupe
