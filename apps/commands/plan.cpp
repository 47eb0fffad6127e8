#include "actors/job/layout_choice.hpp"
#include "actors/job/memory_need.hpp"
#include "actors/job/mesh_choice.hpp"
#include "apps/settings/commands.hpp"
#include "kernels/base/control_group.hpp"
#include "kernels/base/error.hpp"
#include "kernels/engine/replica.hpp"

#include <cstdio>

namespace troupe {

int run_plan(const Settings& settings) {
  select_isa(settings.job.isa);
  const auto data = settings.job.data.empty() ? JobData{}
                                              : load_job_data(settings.job);
  // How many samples there are changes the length of a run, not its plan; their
  // shape does change the plan of a model that fits itself to them.
  const auto made = [&](const JobOptions& options) {
    return data.train ? Job{options, *data.train}
                      : Job{options, options.global_batch};
  };
  auto options = settings.job;
  auto job = made(options);
  std::string layout;
  if (settings.best_of > 0) {
    const auto choice = choose_mesh(options, job, settings.best_of);
    options = choice.options;
    layout = to_string(choice, settings.best_of) + '\n'
             + to_string(choice.layout);
    job = made(options);
  } else if (leaves_layout_open(options)) {
    layout = to_string(choose_layout(options, job));
    job = made(options);
  }
  std::fputs(to_table(job.plan).c_str(), stdout);
  if (!layout.empty())
    std::printf("\n%s\n", layout.c_str());
  uint64_t bytes = 0;
  std::printf("\nmemory, at least\n");
  for (const auto& need : memory_needs(job)) {
    std::printf("  %s\n", to_string(need).c_str());
    bytes += need.of_all();
  }
  std::printf("  all: %s\n", in_units(bytes).c_str());
  if (const auto limit = job.options.cut.device_memory; limit > 0)
    std::printf("  limit of each: %s\n", in_units(limit).c_str());
  if (const auto why = device_misfit(job); !why.empty())
    throw InputError(why);
  return 0;
}

} // namespace troupe
