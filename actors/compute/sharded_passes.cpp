#include "actors/compute/sharded_passes.hpp"

#include "actors/job/sharded_parts.hpp"
#include "kernels/base/seconds_since.hpp"
#include "kernels/base/steady_clock.hpp"
#include "kernels/cpu/vector_loops.hpp"
#include "kernels/numbers/random.hpp"
#include "kernels/records/decode_time.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace troupe {

ShardedPasses::ShardedPasses(const Job& job,
                             std::shared_ptr<const Dataset> data,
                             DeviceId device)
  : job_(job),
    data_(std::move(data)),
    sampling_(job.sampling),
    samples_(job.graph, job.max_rows()),
    parts_(
      make_sharded_parts(job.graph, device, job.max_rows(), job.precision())) {
  const auto rows = job.max_rows();
  uint64_t most = 1;
  for (const auto& replica : parts_) {
    const auto& part = replica->part();
    most = std::max({most, forward_elements(job.graph, part.out, rows),
                     backward_elements(job.graph, part.in, rows)});
  }
  crossing_ = Buffer{most};
  next_ = Buffer{most};
}

ShardedPasses::Passed ShardedPasses::pass(const ShardedCourse::Pass& pass,
                                          const float* parameters,
                                          float* gradient) {
  if (!has_samples(pass.step, pass.rank))
    return {{pass.rank, 0, 0}, true};
  return pass.forward ? forward(pass, parameters)
                      : backward(pass, parameters, gradient);
}

/// Returns what its samples took.
DataTime ShardedPasses::begin(uint64_t step, uint32_t rank) {
  for (const auto& part : parts_)
    part->abandon();
  const auto rows = sampling_.rank(step, rank).count;
  sampling_.indices(step, rank, rows_);
  const auto begin = SteadyClock::now();
  const auto decoded = DecodeTimer::seconds();
  data_->gather(rows_.data(), rows, samples_,
                DataPass{job_.options.seed, sampling_.step(step).data_epoch});
  const auto waited = seconds_since(begin);
  const DataTime taken{waited,
                       std::min(waited, DecodeTimer::seconds() - decoded)};
  batch_ = samples_.batch(rows,
                          kernels::batch_key(job_.options.seed, step, rank));
  batch_.step = {sampling_.step(step).count, sampling_.filled(step)};
  return taken;
}

ShardedPasses::Passed ShardedPasses::forward(const ShardedCourse::Pass& pass,
                                             const float* parameters) {
  const auto taken = pass.part == 0 ? begin(pass.step, pass.rank) : DataTime{};
  const auto stats = parts_[pass.part]->forward(0, parameters, batch_,
                                                crossing_.data(), next_.data());
  std::swap(crossing_, next_);
  return {{pass.rank, stats.loss_sum, batch_.rows},
          pass.part + 1 < parts() || std::isfinite(stats.loss_sum),
          taken};
}

ShardedPasses::Passed ShardedPasses::backward(const ShardedCourse::Pass& pass,
                                              const float* parameters,
                                              float* gradient) {
  auto& replica = *parts_[pass.part];
  replica.move_parameters(0, parameters);
  replica.backward(0, crossing_.data(), gradient, next_.data());
  std::swap(crossing_, next_);
  Passed passed;
  for (auto parameter : replica.part().kept)
    passed.finite =
      passed.finite
      && all_finite(gradient + replica.layout().offsets[parameter],
                    job_.graph.parameters[parameter].size());
  return passed;
}

} // namespace troupe
