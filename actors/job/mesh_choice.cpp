#include "actors/job/mesh_choice.hpp"

#include "actors/job/job.hpp"
#include "actors/job/stage_layers.hpp"
#include "actors/job/stage_mesh.hpp"
#include "kernels/base/error.hpp"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <utility>

namespace troupe {
namespace {

/// Of a step: what another mesh is to gain if it takes more members.
constexpr double min_mesh_gain = 0.005;
/// For so many pipelines: with as many stages as there are devices for, and
/// with less.
constexpr uint32_t max_depths = 6;
constexpr size_t max_told = 4;

/// Stages that there may be at most.
uint32_t parts_of(const JobOptions& asked, const Graph& graph) {
  const auto chunks = asked.schedule.order != "interleaved" ? 1
                      : asked.schedule.chunks > 0 ? asked.schedule.chunks
                                                  : 2;
  return static_cast<uint32_t>(graph.ops.size()) / chunks;
}

/// The fewest members first.
std::vector<Mesh> meshes_of(const Mesh& now, uint32_t parts, uint32_t ranks,
                            uint32_t devices) {
  const auto tensor = now.tensor <= devices ? now.tensor : 1;
  std::vector<Mesh> out;
  for (uint32_t data = 1; data <= std::min(ranks, devices / tensor); ++data) {
    const auto deepest = std::min(parts, devices / tensor / data);
    for (uint32_t less = 0; less < std::min(max_depths, deepest); ++less)
      out.push_back({data, deepest - less, tensor});
  }
  std::ranges::stable_sort(out, {}, &Mesh::members);
  return out;
}

JobOptions laid_out_as(const JobOptions& asked, const Mesh& mesh) {
  auto out = asked;
  out.strategy = Strategy::hybrid;
  out.cut.mesh = mesh;
  if (names_cuts(out))
    out.cut.split_at.clear();
  return out;
}

bool is_better(const MeshChoice::Tried& a, const MeshChoice::Tried& b) {
  if (a.fits != b.fits)
    return a.fits;
  return static_cast<double>(a.step)
         < static_cast<double>(b.step) * (1 - min_mesh_gain);
}

std::string step_of(const MeshChoice& choice, uint64_t step) {
  char text[32];
  if (choice.layout.measured)
    std::snprintf(text, sizeof text, "%.*f ms", step < 100'000'000 ? 1 : 0,
                  static_cast<double>(step) / 1e6);
  else
    std::snprintf(text, sizeof text, "%.3g MFLOP",
                  static_cast<double>(step) / 1e6);
  return text;
}

} // namespace

MeshChoice choose_mesh(JobOptions asked, const Graph& graph, uint32_t rows,
                       const std::vector<OperatorTime>& times,
                       uint32_t devices) {
  std::optional<MeshChoice> best;
  std::vector<MeshChoice::Tried> tried;
  std::string mistake = "there is no device";
  for (const auto& mesh : meshes_of(mesh_of(asked), parts_of(asked, graph),
                                    asked.virtual_ranks, devices)) {
    MeshChoice one{laid_out_as(asked, mesh), {}, {}};
    try {
      one.layout = choose_layout(one.options, graph, rows, times);
    } catch (const UsageError& failure) { // another mesh may do
      mistake = failure.what();
      continue;
    }
    const auto& found = one.layout.tried.front();
    tried.push_back({mesh, found.step, found.fits});
    one.tried = {tried.back()};
    if (!best || is_better(one.tried.front(), best->tried.front()))
      best = std::move(one);
  }
  if (best && !best->tried.front().fits)
    mistake = "none of its meshes keeps to --device-memory";
  if (!best || !best->tried.front().fits)
    throw UsageError("no layout for " + std::to_string(devices)
                     + (devices == 1 ? " device: " : " devices: ") + mistake);
  std::erase_if(tried, [&](const MeshChoice::Tried& x) {
    return x.mesh == best->tried.front().mesh;
  });
  std::ranges::stable_sort(tried, {}, [](const MeshChoice::Tried& x) {
    return std::pair{!x.fits, x.step};
  });
  best->tried.insert(best->tried.end(), tried.begin(), tried.end());
  return *std::move(best);
}

MeshChoice choose_mesh(JobOptions asked, const Job& made, uint32_t devices) {
  auto known = made.options;
  known.schedule = asked.schedule;
  known.cut.split_at = asked.cut.split_at;
  const auto times = measured_times(known, made);
  return choose_mesh(std::move(known), made.graph, made.max_rows(), times,
                     devices);
}

std::string to_string(const MeshChoice& choice, uint32_t devices) {
  const auto& chosen = choice.tried.front();
  auto out = to_string(chosen.mesh) + " of " + std::to_string(devices)
             + (devices == 1 ? " device" : " devices") + ": a step of "
             + step_of(choice, chosen.step);
  std::string others;
  for (size_t i = 1; i < std::min(choice.tried.size(), max_told + 1); ++i)
    others += (others.empty() ? "" : ", ") + to_string(choice.tried[i].mesh)
              + ' '
              + (choice.tried[i].fits ? step_of(choice, choice.tried[i].step)
                                      : "needs too much memory");
  return out + (others.empty() ? "" : " (" + others + ')');
}

} // namespace troupe
