#pragma once

#include "actors/job.hpp"
#include "actors/messages.hpp"
#include "kernels/buffer.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

namespace troupe {

/// A worker's copy of the parameters, flat by Job::layout, which a pull fills
/// slice by slice.
class PulledParameters {
public:
  explicit PulledParameters(const Job& job)
    : job_(job),
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
    const auto& slice = job_.plan.slices[message.slice];
    if (message.values.size() != slice.count)
      return false;
    std::memcpy(buffer_->data() + job_.flat_offset(slice),
                message.values.data(), slice.count * sizeof(float));
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

private:
  const Job& job_;
  std::shared_ptr<Buffer> buffer_;
  std::vector<bool> arrived_;
  std::vector<uint64_t> versions_;
  size_t missing_ = 0;
};

} // namespace troupe
