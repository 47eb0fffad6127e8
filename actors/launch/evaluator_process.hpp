#pragma once

#include "actors/certificates/credentials.hpp"
#include "actors/wire/messages/supervision.hpp"
#include "strategies/role_id.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace troupe {

/// An evaluator with a process of its own, on any host: it takes no part in the
/// training, and nobody waits for it.
struct EvaluatorProcess {
  RoleId role{RoleKind::evaluator, 0};
  std::string coordinator; ///< HOST:PORT,…
  CertificateSource certificates;
  std::string checkpoint_dir; ///< that the job writes to
  uint64_t connect_deadline_ms = 30'000;
  std::function<void(const std::string& line)> tell;
  /// Asked ten times a second; a reason ends it, not the job.
  std::function<std::string()> leave;
};

/// One checkpoint's verdict on the job's held-out samples.
struct EvaluatedCheckpoint {
  uint64_t step = 0;
  uint64_t samples = 0;
  std::vector<Measure> measures;
  std::string weights_sha256;
};

/// Evaluates the newest checkpoint whenever there is one that it has not seen,
/// and the last one when the job is over, as tf.distribute's evaluator does.
/// What is evaluated, and on what, the coordinator says; data are read here.
/// Errors: InputError (coordinator not reachable, data missing, nothing held
/// out, no checkpoint when the job was over); std::runtime_error where the
/// coordinator was lost for good.
std::vector<EvaluatedCheckpoint>
run_evaluator_process(const EvaluatorProcess& options);

} // namespace troupe
