#pragma once

#include "actors/compute/step_gradient.hpp"
#include "actors/job/job.hpp"
#include "actors/wire/messages/reports.hpp"
#include "kernels/base/buffer.hpp"
#include "kernels/engine/stage_replica.hpp"
#include "strategies/sharded_course.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace troupe {

/// The working memory of a worker that takes one leaf after the other through
/// the parts of a model, with parameters that come for each pass. Bits are
/// those of a leaf that goes through the whole model. All calls from tasks of
/// one executor, but those that tell of parts.
class ShardedPasses {
public:
  ShardedPasses(const Job& job, std::shared_ptr<const Dataset> data,
                DeviceId device);

  uint32_t parts() const { return static_cast<uint32_t>(parts_.size()); }
  const GraphPart& part(uint32_t index) const { return parts_[index]->part(); }
  /// Where the parameters of a part, and their gradients, lie.
  const Layout& layout(uint32_t index) const { return parts_[index]->layout(); }

  struct Passed {
    LeafLoss loss;      ///< of the last part's forward pass
    bool finite = true; ///< the loss, or the gradient that the part keeps
    DataTime data{};    ///< of the leaf's samples
  };
  /// Takes a leaf through a part; a first pass lets go of the leaf before.
  /// Shapes: parameters and, backward, gradient float flat by layout(); gaps of
  /// the gradient are left alone, and so is all of it where the rank has no
  /// samples in the step.
  Passed pass(const ShardedCourse::Pass& pass, const float* parameters,
              float* gradient);
  /// Whether the rank has samples in a step.
  bool has_samples(uint64_t step, uint32_t rank) const {
    return sampling_.rank(step, rank).count > 0;
  }

private:
  DataTime begin(uint64_t step, uint32_t rank);
  Passed forward(const ShardedCourse::Pass& pass, const float* parameters);
  Passed backward(const ShardedCourse::Pass& pass, const float* parameters,
                  float* gradient);

  const Job& job_;
  std::shared_ptr<const Dataset> data_;
  Sampling sampling_;
  BatchMemory samples_;
  StageReplicas parts_;
  std::vector<uint64_t> rows_; ///< of the leaf in hand
  Batch batch_;                ///< the same
  /// What crosses into the next pass, forward or backward, and what comes of
  /// that.
  Buffer crossing_;
  Buffer next_;
};

} // namespace troupe
