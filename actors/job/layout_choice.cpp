#include "actors/job/layout_choice.hpp"

#include "actors/job/job.hpp"
#include "actors/job/memory_need.hpp"
#include "actors/job/stage_layers.hpp"
#include "actors/job/stage_mesh.hpp"
#include "kernels/base/error.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <utility>

namespace troupe {
namespace {

/// By how much another schedule is to be faster than one that holds less.
constexpr double min_gain = 0.005;
/// Of a pass forward: what is measured for longer is not worth the wait.
constexpr uint64_t max_measured_flops = 50'000'000'000;

/// A schedule that can be, with what it leaves open decided.
struct Candidate {
  JobOptions options;
  LayoutChoice::Tried tried;
};

/// The fewest micro-batches held first.
std::vector<StageSchedule> schedules_of(const JobOptions& options) {
  if (options.schedule.order != "auto")
    return {options.schedule};
  std::vector<StageSchedule> out;
  for (const char* order : {"1f1b", "zero_bubble", "interleaved", "gpipe"}) {
    out.push_back(options.schedule);
    out.back().order = order;
  }
  return out;
}

std::string name_of(const PipelineShape& shape) {
  auto name = to_string(shape.schedule);
  if (shape.chunks > 1)
    name += " with " + std::to_string(shape.chunks) + " chunks a stage";
  return name;
}

Candidate candidate(JobOptions options, const Graph& graph, uint32_t rows,
                    const std::vector<OperatorTime>& times) {
  const auto layers = stage_layers(options, graph, rows, times);
  options.cut.split_at = cuts_of(layers);
  const auto shape = pipeline_shape(options, micro_batches(options));
  const auto played =
    play_pipeline(shape, part_costs(options, graph, rows, layers, times));
  Candidate out{std::move(options),
                {name_of(shape), played.end, played.idle_share, true}};
  if (out.options.cut.device_memory > 0) {
    auto alone = out.options;
    alone.resume_from.clear();
    out.tried.fits = keeps_to_limit(Job{alone});
  }
  return out;
}

bool is_better(const LayoutChoice::Tried& a, const LayoutChoice::Tried& b) {
  if (!a.fits || !b.fits) // where none does, that which holds least
    return a.fits;
  return static_cast<double>(a.step)
         < static_cast<double>(b.step) * (1 - min_gain);
}

/// On this machine's processors, in seconds.
bool can_be_measured(const Job& made) {
  return on_processors(made.options)
         && made.graph.flops_per_sample() * made.max_rows()
              <= max_measured_flops;
}

std::string in_ms(uint64_t ns) {
  char text[32];
  const int digits = ns < 1'000'000 ? 3 : ns < 100'000'000 ? 1 : 0;
  std::snprintf(text, sizeof text, "%.*f ms", digits,
                static_cast<double>(ns) / 1e6);
  return text;
}

std::string in_percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", share * 100);
  return text;
}

} // namespace

LayoutChoice choose_layout(JobOptions& options, const Graph& graph,
                           uint32_t rows,
                           const std::vector<OperatorTime>& times) {
  LayoutChoice choice;
  choice.measured = !times.empty();
  std::optional<Candidate> best;
  std::string mistake;
  for (const auto& schedule : schedules_of(options)) {
    auto trial = options;
    trial.schedule = schedule;
    try {
      auto one = candidate(std::move(trial), graph, rows, times);
      choice.tried.push_back(one.tried);
      if (best && !is_better(one.tried, best->tried))
        continue;
      best = std::move(one);
      std::swap(choice.tried.front(), choice.tried.back());
    } catch (const UsageError& failure) { // another one may do
      if (mistake.empty())
        mistake = failure.what();
    }
  }
  if (!best)
    throw UsageError(mistake);
  options.schedule = best->options.schedule;
  options.cut.split_at = best->options.cut.split_at;
  return choice;
}

bool leaves_layout_open(const JobOptions& options) {
  return has_stages(options)
         && (!names_cuts(options) || options.schedule.order == "auto");
}

LayoutChoice choose_layout(JobOptions& options, const Job& made) {
  auto known = made.options;
  known.schedule = options.schedule;
  known.cut.split_at = options.cut.split_at;
  auto choice = choose_layout(known, made.graph, made.max_rows(),
                              measured_times(options, made));
  options.schedule = known.schedule;
  options.cut.split_at = known.cut.split_at;
  return choice;
}

std::vector<OperatorTime> measured_times(const JobOptions& options,
                                         const Job& made) {
  if (cuts_by_flops(options) || !can_be_measured(made))
    return {};
  return measure_operators(made.graph, made.max_rows(), made.precision());
}

std::string to_string(const LayoutChoice& choice) {
  const auto& chosen = choice.tried.front();
  auto out = "schedule " + chosen.schedule + ": ";
  if (choice.measured)
    out += "a step of " + in_ms(chosen.step) + ", "
           + in_percent(chosen.idle_share)
           + " of it waiting (exchanges and shared cores left out), by "
             "operators measured here";
  else
    out += in_percent(chosen.idle_share) + " of a step waiting, by FLOPs";
  std::string others;
  for (size_t i = 1; i < choice.tried.size(); ++i) {
    const auto& other = choice.tried[i];
    others += (others.empty() ? "" : ", ") + other.schedule + ' '
              + (!other.fits       ? "needs too much memory"
                 : choice.measured ? in_ms(other.step)
                                   : in_percent(other.idle_share));
  }
  return out + (others.empty() ? "" : " (" + others + ')');
}

std::string kept_layout(const JobOptions& options) {
  if (!has_stages(options) && !has_tensor_members(options))
    return {};
  return nlohmann::json{{"mesh", to_string(mesh_of(options))},
                        {"split_at", options.cut.split_at},
                        {"schedule", options.schedule.order},
                        {"chunks", options.schedule.chunks}}
    .dump();
}

void take_layout(JobOptions& options, const std::string& kept) {
  try {
    const auto json = nlohmann::json::parse(kept);
    Mesh mesh = mesh_of(options);
    std::string mistake;
    if (json.contains("mesh")
        && !parse(json.at("mesh").get<std::string>(), mesh, mistake))
      throw InputError("the layout of a job: mesh: " + mistake);
    if (mesh != mesh_of(options)) {
      options.strategy = Strategy::hybrid;
      options.cut.mesh = mesh;
    }
    options.cut.split_at = json.at("split_at");
    options.schedule.order = json.at("schedule");
    options.schedule.chunks = json.at("chunks");
  } catch (const nlohmann::json::exception& failure) {
    throw InputError(std::string{"the layout of a job: "} + failure.what());
  }
}

} // namespace troupe
