#include "apps/commands.hpp"

#include <cstdio>

namespace troupe {

int run_plan(const Settings& settings) {
  // How many samples there are changes the length of a run, not its plan; their
  // shape does change the plan of a model that fits itself to them.
  auto job = settings.job.data.empty()
               ? Job{settings.job, settings.job.global_batch}
               : Job{settings.job, *load_job_data(settings.job).train};
  std::fputs(to_table(job.plan).c_str(), stdout);
  return 0;
}

} // namespace troupe
