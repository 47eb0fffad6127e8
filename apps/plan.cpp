#include "apps/commands.hpp"

#include <cstdio>

namespace troupe {

int run_plan(const Settings& settings) {
  // How many samples there are changes the length of a run, not its plan.
  Job job{settings.job, settings.job.global_batch};
  std::fputs(to_table(job.plan).c_str(), stdout);
  return 0;
}

} // namespace troupe
