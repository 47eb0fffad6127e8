#pragma once

#include "actors/job.hpp"
#include "actors/messages.hpp"
#include "actors/worker_rows.hpp"
#include "kernels/buffer.hpp"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

namespace troupe {

/// A worker's copy of the parameters, flat by Job::layout, which a pull fills
/// slice by slice.
class PulledParameters {
public:
  PulledParameters(const Job& job, std::shared_ptr<const Dataset> data,
                   std::shared_ptr<LinkMemory> memory)
    : job_(job),
      rows_(job, std::move(data), std::move(memory)),
      arrived_(job.plan.slices.size()),
      versions_(job.plan.slices.size()) {
    replace();
  }

  /// A pull begins. `in_use`: somebody still reads what is here.
  void begin(bool in_use) {
    missing_ = arrived_.size();
    std::fill(arrived_.begin(), arrived_.end(), false);
    if (in_use)
      replace();
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
    return true;
  }
  bool complete() const { return missing_ == 0; }

  /// A new buffer; readers of the old one keep it.
  void replace() {
    buffer_ = std::make_shared<Buffer>(job_.layout.total);
    buffer_->fill(0);
  }
  const std::shared_ptr<Buffer>& buffer() const { return buffer_; }
  uint64_t version(uint32_t slice) const { return versions_[slice]; }
  WorkerRows& rows() { return rows_; } ///< of sparse tables

private:
  const Job& job_;
  WorkerRows rows_;
  std::shared_ptr<Buffer> buffer_;
  std::vector<bool> arrived_;
  std::vector<uint64_t> versions_;
  size_t missing_ = 0;
};

} // namespace troupe
