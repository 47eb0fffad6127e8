#pragma once

#include "actors/job/job.hpp"
#include "actors/wire/messages.hpp"
#include "actors/wire/sole_owner.hpp"
#include "actors/worker/rows.hpp"
#include "kernels/base/buffer.hpp"
#include "kernels/engine/parameter_gate.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

namespace troupe {

/// A worker's copy of the parameters, which a pull fills slice by slice; who
/// reads it meanwhile waits at its gate.
/// Shapes: buffer() float [Job::layout.total], flat by that layout.
class PulledParameters {
public:
  PulledParameters(const Job& job, std::shared_ptr<const Dataset> data,
                   std::shared_ptr<LinkMemory> memory)
    : job_(job),
      rows_(job, std::move(data), std::move(memory)),
      arrived_(job.plan.slices.size()),
      versions_(job.plan.slices.size()),
      cut_(job.plan.variables.size()) {
    for (const auto& slice : job.plan.slices)
      ++cut_[slice.variable];
    replace();
  }

  /// A pull begins. `in_use`: somebody still reads what is here.
  void begin(bool in_use) {
    missing_ = arrived_.size();
    std::fill(arrived_.begin(), arrived_.end(), false);
    absent_ = cut_;
    gate_ = std::make_shared<ParameterGate>(cut_.size(), patience);
    for (size_t i = 0; i < cut_.size(); ++i)
      if (cut_[i] == 0)
        gate_->open(i);
    if (std::exchange(given_up_, false) || in_use)
      replace();
  }
  /// Whoever reads it meanwhile stops soon, without a result.
  void give_up() {
    gate_->abandon();
    given_up_ = true;
  }
  /// Takes over a slice; false: it is not awaited, or not of the slice's size.
  bool take(const Pulled& message) {
    if (message.slice >= arrived_.size() || arrived_[message.slice])
      return false;
    if (!rows_.put(job_.plan.slices[message.slice], message.values,
                   buffer_->data()))
      return false;
    arrived_[message.slice] = true;
    versions_[message.slice] = message.version;
    --missing_;
    const auto variable = job_.plan.slices[message.slice].variable;
    if (--absent_[variable] == 0)
      gate_->open(variable);
    return true;
  }
  bool complete() const { return missing_ == 0; }

  /// Another buffer; readers of this one keep it.
  void replace() {
    std::swap(buffer_, spare_);
    if (buffer_ && sole_owner(buffer_))
      return;
    buffer_ = std::make_shared<Buffer>(job_.layout.total);
    buffer_->fill(0);
  }
  const std::shared_ptr<Buffer>& buffer() const { return buffer_; }
  /// The gate of the newest pull.
  const std::shared_ptr<ParameterGate>& gate() const { return gate_; }
  /// The versions of the newest pull, by slice.
  const std::vector<uint64_t>& versions() const { return versions_; }
  WorkerRows& rows() { return rows_; } ///< of sparse tables

private:
  /// Who has waited so long for a parameter waits for all of them, as without a
  /// gate.
  static constexpr std::chrono::seconds patience{30};

  const Job& job_;
  WorkerRows rows_;
  std::shared_ptr<Buffer> buffer_;
  std::shared_ptr<Buffer> spare_;
  std::vector<bool> arrived_;
  std::vector<uint64_t> versions_;
  size_t missing_ = 0;
  std::vector<uint32_t> cut_;    ///< by variable: its slices
  std::vector<uint32_t> absent_; ///< by variable: those that are missing
  std::shared_ptr<ParameterGate> gate_;
  bool given_up_ = false; ///< somebody may still read what is here
};

} // namespace troupe
