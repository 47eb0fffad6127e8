#include "actors/slice_update.hpp"

namespace troupe {

UpdateArgs slice_update(const Job& job, const Slice& slice, UpdateMoment moment,
                        const StepScalars& scalars) {
  UpdateArgs args;
  args.samples = static_cast<float>(moment.samples);
  args.step = moment.count + 1;
  args.learning_rate = static_cast<float>(learning_rate(job.lr, moment.step));
  args.count = slice.count;
  return args;
}

} // namespace troupe
