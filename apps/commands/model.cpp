#include "apps/settings/commands.hpp"
#include "kernels/data/dataset.hpp"
#include "kernels/engine/listing.hpp"
#include "kernels/graph/model_file.hpp"
#include "kernels/graph/models.hpp"
#include "kernels/graph/virtual_slices.hpp"

#include <cstdio>

namespace troupe {

int run_model_show(const Settings& settings) {
  const auto& job = settings.job;
  SampleShape sample;
  if (!job.data.empty())
    sample = load_data(parse_data_spec(job.data), {}).train->shape;
  const auto graph = cut_into_slices(make_graph(job.model, sample),
                                     job.cut.virtual_slices);
  std::string text;
  auto spec = model_spec(job.model, sample);
  if (settings.format == "json") {
    spec.sample = graph.sample;
    text = to_json(spec, true);
  } else if (settings.format == "dot") {
    text = to_dot(graph, spec.name);
  } else {
    // The rows of a micro-batch of the largest virtual rank.
    const auto ranks = uint64_t{job.virtual_ranks};
    text = to_table(
      graph, static_cast<uint32_t>((job.global_batch + ranks - 1) / ranks));
  }
  std::fputs(text.c_str(), stdout);
  return 0;
}

} // namespace troupe
