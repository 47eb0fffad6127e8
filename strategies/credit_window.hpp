#pragma once

#include <cstdint>

namespace troupe {

/// The sender's side of credit-based flow control: bytes in flight never exceed
/// what the receiver granted (I10). Counts are totals since the link began, so
/// that a repeated or late grant does no harm.
/// Units: bytes. Source: credit in totals, as QUIC's MAX_DATA has it (RFC 9000,
/// section 4.1).
class CreditWindow {
public:
  /// The receiver grants bytes up to a total; a smaller total than known is an
  /// old message.
  void grant(uint64_t total) {
    if (total > granted_)
      granted_ = total;
  }

  /// Takes `bytes` out of the credit, all or nothing.
  bool take(uint64_t bytes) {
    if (bytes > available())
      return false;
    taken_ += bytes;
    return true;
  }

  uint64_t available() const { return granted_ - taken_; }
  uint64_t taken() const { return taken_; }

private:
  uint64_t granted_ = 0;
  uint64_t taken_ = 0;
};

/// The receiver's side: grants a window and renews it once half of it has been
/// consumed, so that grants are few and the sender never runs dry.
class CreditSource {
public:
  explicit CreditSource(uint64_t window_bytes) : window_(window_bytes) {}

  /// Tells whether `bytes` that arrive were granted; a sender that overruns its
  /// credit is to be cut off.
  bool arrive(uint64_t bytes) {
    if (bytes > granted_ - arrived_)
      return false;
    arrived_ += bytes;
    return true;
  }

  /// Returns the total to grant now, or 0 when there is no need yet.
  /// `consumed` is what the owner has done with so far, in all.
  uint64_t renew(uint64_t consumed) {
    const auto total = consumed + window_;
    if (granted_ != 0 && total < granted_ + window_ / 2)
      return 0;
    if (total <= granted_)
      return 0;
    granted_ = total;
    return total;
  }

  uint64_t granted() const { return granted_; }

private:
  uint64_t window_;
  uint64_t granted_ = 0;
  uint64_t arrived_ = 0;
};

} // namespace troupe
