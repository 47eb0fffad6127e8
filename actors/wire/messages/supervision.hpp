#pragma once

#include "actors/wire/messages/fields.hpp"
#include "actors/wire/tensor_view.hpp"
#include "kernels/cpu/value_spread.hpp"

#include <string>
#include <vector>

/// Evaluation, supervision and observers.
namespace troupe {

/// A slice of a version that is to be evaluated.
struct Evaluate {
  uint64_t job = 0;
  uint64_t version = 0;
  uint32_t slice = 0;
  uint32_t slices = 0; ///< how many make the whole
  TensorView values;
};
struct Measure { ///< loss, accuracy, auc or perplexity
  std::string name;
  double value = 0;
};
/// What held-out samples gave, of a version.
struct Evaluation {
  uint64_t job = 0;
  uint64_t version = 0;
  uint64_t samples = 0;
  std::vector<Measure> measures; ///< the loss comes first
};

TROUPE_INSPECT(Evaluate, TROUPE_FIELD(job), TROUPE_FIELD(version),
               TROUPE_FIELD(slice), TROUPE_FIELD(slices), TROUPE_FIELD(values))
TROUPE_INSPECT(Measure, TROUPE_FIELD(name), TROUPE_FIELD(value))
TROUPE_INSPECT(Evaluation, TROUPE_FIELD(job), TROUPE_FIELD(version),
               TROUPE_FIELD(samples), TROUPE_FIELD(measures))

/// A role supervisor or an observer asks to be kept informed.
struct Attach {
  bool supervises = false;
  std::vector<RoleId> added{}; ///< it starts again, beside those of the plan
};
struct Detach {}; ///< the observer has seen the end and goes
/// A supervisor tells of the death of a role that it starts again.
struct RoleDied {
  RoleId role;
  std::string how;
  std::string host{}; ///< of the process that died, as in Hello
  uint32_t process = 0;
  uint32_t left = 0; ///< restarts that may follow without a committed step
};
/// Tells supervisors that a member is left out: end it and start another.
struct ReplaceRole {
  RoleId role;
  std::string reason;
};
/// A supervisor will not start the role again, or nothing can be evaluated.
struct GiveUp {
  std::string line;
};
/// The same of a member of a split model, whose layers others may get
/// (--on-loss replan): granted, all members are ended for that.
struct RoleGone {
  RoleId role;
  std::string how;
};
/// They have ended: where their states can be opened on the coordinator's host,
/// and how many devices are left.
struct Remains {
  std::vector<std::string> states;
  uint32_t devices = 0;
};
/// How the coordinator that follows lays the job out, as its journal has it.
struct Replanned {
  std::string layout;
};
/// How far a run is; at most ten a second.
struct Progress {
  uint64_t step = 0;
  uint64_t total = 0;
  double loss = 0;
  double samples_per_second = 0;
  double steps_per_second = 0;
};
/// An epoch of data is committed and, where it is due, evaluated.
struct DataEpochEnd {
  uint64_t data_epoch = 0; ///< from 1
  uint64_t step = 0;
  double loss = 0; ///< mean over the epoch's samples
  double samples_per_second = 0;
  std::vector<Measure> evaluation; ///< empty: not evaluated
};
/// How values of a variable are spread after a step, and the mean gradients
/// that they were updated by: of its elements from `begin` on.
struct Spreads {
  uint64_t job = 0;
  uint64_t step = 0; ///< from 1
  uint32_t variable = 0;
  uint64_t begin = 0;
  uint64_t elements = 0;
  ValueSpread values;
  ValueSpread gradient;
};
/// A line worth showing: an address, a recovery, a restart.
struct Note {
  std::string line;
};
/// The run is over.
struct Finished {
  int32_t status = 0;  ///< exit status
  std::string line;    ///< the one line of a failure, or what was saved
  std::string summary; ///< JSON, empty on failure
};
/// A signal to the launcher or the coordinator: end at the next possible step
/// and save.
struct StopRequest {
  std::string why;
};

TROUPE_INSPECT(Attach, TROUPE_FIELD(supervises), TROUPE_FIELD(added))
template <class Inspector>
bool inspect(Inspector& f, Detach& x) {
  return f.object(x).fields();
}
TROUPE_INSPECT(RoleDied, TROUPE_FIELD(role), TROUPE_FIELD(how),
               TROUPE_FIELD(host), TROUPE_FIELD(process), TROUPE_FIELD(left))
TROUPE_INSPECT(ReplaceRole, TROUPE_FIELD(role), TROUPE_FIELD(reason))
TROUPE_INSPECT(GiveUp, TROUPE_FIELD(line))
TROUPE_INSPECT(RoleGone, TROUPE_FIELD(role), TROUPE_FIELD(how))
TROUPE_INSPECT(Remains, TROUPE_FIELD(states), TROUPE_FIELD(devices))
TROUPE_INSPECT(Replanned, TROUPE_FIELD(layout))
TROUPE_INSPECT(Progress, TROUPE_FIELD(step), TROUPE_FIELD(total),
               TROUPE_FIELD(loss), TROUPE_FIELD(samples_per_second),
               TROUPE_FIELD(steps_per_second))
TROUPE_INSPECT(DataEpochEnd, TROUPE_FIELD(data_epoch), TROUPE_FIELD(step),
               TROUPE_FIELD(loss), TROUPE_FIELD(samples_per_second),
               TROUPE_FIELD(evaluation))
TROUPE_INSPECT(ValueSpread, TROUPE_FIELD(count), TROUPE_FIELD(min),
               TROUPE_FIELD(max), TROUPE_FIELD(sum),
               TROUPE_FIELD(sum_of_squares), TROUPE_FIELD(buckets),
               TROUPE_FIELD(counts))
TROUPE_INSPECT(Spreads, TROUPE_FIELD(job), TROUPE_FIELD(step),
               TROUPE_FIELD(variable), TROUPE_FIELD(begin),
               TROUPE_FIELD(elements), TROUPE_FIELD(values),
               TROUPE_FIELD(gradient))
TROUPE_INSPECT(Note, TROUPE_FIELD(line))
TROUPE_INSPECT(Finished, TROUPE_FIELD(status), TROUPE_FIELD(line),
               TROUPE_FIELD(summary))
TROUPE_INSPECT(StopRequest, TROUPE_FIELD(why))

} // namespace troupe
