// What of a job is read: its samples, from this machine or from elsewhere.

#include "actors/job/job.hpp"
#include "actors/stores/remote_store.hpp"
#include "kernels/columns/fitted_columns.hpp"
#include "kernels/records/record_index.hpp"

namespace troupe {

std::shared_ptr<RemoteStore> store_of(const DataAccess& access) {
  StoreOptions options;
  if (!access.cache.empty())
    parse_data_cache(access.cache, options);
  options.tries.deadline_ms = uint64_t{1000} * access.timeout_s;
  return open_store(options);
}

SplitData load_samples(const JobOptions& options,
                       const std::shared_ptr<FittedColumns>& columns,
                       bool unlabelled, bool trains) {
  HeldOut held_out{options.eval_fraction, {}};
  if (!options.eval_data.empty())
    held_out.spec = parse_data_spec(options.eval_data);
  ReadLimits limits;
  if (options.data_access.memory > 0)
    limits.memory = options.data_access.memory;
  limits.index_folder = index_folder();
  limits.unlabelled = unlabelled;
  limits.trains = trains;
  const auto spec = parse_data_spec(options.data);
  limits.store = store_of(options.data_access);
  return load_data(spec, held_out, limits, columns);
}

JobData load_job_data(const JobOptions& options) {
  auto parts = load_samples(options, nullptr, false, true);
  const auto graph = make_graph(options.model, parts.train->shape);
  cut_windows(*parts.train, graph, false);
  if (parts.eval)
    cut_windows(*parts.eval, graph, true);
  return {parts.train, parts.eval};
}

} // namespace troupe
