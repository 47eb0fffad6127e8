#include "actors/launch/evaluator_process.hpp"

#include "actors/compute/leaf_computer.hpp"
#include "actors/control/actor_node.hpp"
#include "actors/control/control_line.hpp"
#include "actors/control/refused_members.hpp"
#include "actors/job/job.hpp"
#include "actors/job/trained_model.hpp"
#include "actors/launch/job_request.hpp"
#include "actors/launch/run_watch.hpp"
#include "actors/wire/ends_with_scope.hpp"
#include "actors/wire/interfaces.hpp"
#include "kernels/base/error.hpp"
#include "kernels/checkpoint/read_checkpoint.hpp"
#include "kernels/engine/replica.hpp"

#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <utility>

namespace troupe {
namespace {

/// It was told to leave.
struct Left : std::exception {};

class Evaluations {
public:
  Evaluations(const JobOptions& job, const EvaluatorProcess& options)
    : job_(job), options_(options), samples_(load_job_data(job).eval) {
    if (!samples_)
      throw InputError(to_string(options.role)
                       + ": the job holds no samples out: give its coordinator "
                         "--eval-fraction F or --eval-data SPEC");
  }

  /// The newest checkpoint, unless it was seen.
  void look() {
    const auto found = find_checkpoints(options_.checkpoint_dir);
    if (found.empty() || found.front().folder == newest_)
      return;
    newest_ = found.front().folder;
    try {
      judge(found.front());
    } catch (const InputError& failure) {
      // Whoever writes them removes the oldest.
      std::error_code gone;
      if (std::filesystem::exists(newest_, gone))
        throw;
    }
  }

  const std::vector<EvaluatedCheckpoint>& all() const { return all_; }

private:
  void judge(const FoundCheckpoint& checkpoint) {
    const auto model = load_trained_model(
      job_.model, samples_->shape, checkpoint.folder, job_.cut.virtual_slices);
    auto device = parse_device(job_.devices.front());
    if (device.kind == DeviceId::Kind::pjrt // the workers have it
        || (device.kind == DeviceId::Kind::cuda
            && device.index >= cuda_device_count()))
      device = {};
    const auto scores = score(model, *samples_, device,
                              job_.threads_per_device);
    all_.push_back(
      {checkpoint.step, scores.samples, scores.measures, model.weights_sha256});
    if (!options_.tell)
      return;
    std::string line = "step " + std::to_string(checkpoint.step);
    for (const auto& measure : scores.measures) {
      char text[64];
      std::snprintf(text, sizeof text, "  %s%s %.4f",
                    measure.name == "loss" ? "eval " : "", measure.name.c_str(),
                    measure.value);
      line += text;
    }
    options_.tell(line);
  }

  JobOptions job_;
  const EvaluatorProcess& options_;
  std::shared_ptr<const Dataset> samples_;
  std::string newest_;
  std::vector<EvaluatedCheckpoint> all_;
};

} // namespace

std::vector<EvaluatedCheckpoint>
run_evaluator_process(const EvaluatorProcess& options) {
  Waiting waiting;
  waiting.credentials = load_credentials(options.certificates,
                                         name_of(options.role));
  waiting.tell = options.tell;
  ActorConfig config{waiting.credentials};
  caf::actor_system system{config};
  caf::scoped_actor self{system};
  ControlLineOptions line;
  line.first = caf::actor_cast<coordinator_actor>(
    connect(system, options.coordinator, options.connect_deadline_ms, waiting));
  line.address = options.coordinator;
  line.role = options.role;
  line.revoked = refuse_members(config.tls());
  line.hang_up = hang_up_on(options.coordinator);
  line.cut_off = cut_off_from(options.coordinator);
  const auto coordinator = spawn_control_line(system, std::move(line));
  const EndsWithScope line_end{
    caf::actor_cast<caf::strong_actor_ptr>(coordinator)};
  const auto job =
    job_from_json(ask_for_job(self, coordinator, options.role).options);
  select_isa(job.isa);
  Evaluations evaluations{job, options};
  RunEvents events;
  events.stop = [&]() -> std::string {
    if (options.leave && !options.leave().empty())
      throw Left{};
    evaluations.look();
    return {};
  };
  try {
    const auto result = watch(self, coordinator, events);
    evaluations.look(); // it is written before the end is told
    if (result.lost)
      throw std::runtime_error(to_string(options.role) + ": " + result.line);
    if (evaluations.all().empty())
      throw InputError(to_string(options.role) + ": the job is over ("
                       + result.line + "), and " + options.checkpoint_dir
                       + " has no checkpoint: is it the folder of the "
                         "coordinator's --checkpoint-dir?");
  } catch (const Left&) {
  }
  return evaluations.all();
}

} // namespace troupe
