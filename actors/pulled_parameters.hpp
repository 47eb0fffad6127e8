#pragma once

#include "actors/job.hpp"
#include "actors/messages.hpp"
#include "actors/worker_rows.hpp"
#include "kernels/buffer.hpp"

#include <algorithm>
#include <atomic>
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

  /// Another buffer; readers of this one keep it.
  void replace() {
    std::swap(buffer_, spare_);
    if (buffer_ && buffer_.use_count() == 1) {
      std::atomic_thread_fence(std::memory_order_acquire);
      return;
    }
    buffer_ = std::make_shared<Buffer>(job_.layout.total);
    buffer_->fill(0);
  }
  const std::shared_ptr<Buffer>& buffer() const { return buffer_; }
  /// By slice, of the newest pull.
  const std::vector<uint64_t>& versions() const { return versions_; }
  WorkerRows& rows() { return rows_; } ///< of sparse tables

private:
  const Job& job_;
  WorkerRows rows_;
  std::shared_ptr<Buffer> buffer_;
  std::shared_ptr<Buffer> spare_;
  std::vector<bool> arrived_;
  std::vector<uint64_t> versions_;
  size_t missing_ = 0;
};

} // namespace troupe
