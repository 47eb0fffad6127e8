#pragma once

#include "actors/certificates/tls_context.hpp"

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace troupe {

/// When a certificate is to be renewed, and what there is to say of it. A pure
/// machine: seconds of Unix time.
class RenewalPlan {
public:
  /// Plans for a certificate that holds from `issued` on: more than half of its
  /// time is left for what goes wrong.
  RenewalPlan(int64_t issued, int64_t ends);

  int64_t next() const { return next_; } ///< when to try
  /// It did not work: the next attempt comes later. Returns whether that is
  /// worth telling: when less than a quarter is left, then not often.
  bool failed(int64_t now);

private:
  int64_t ends_;
  int64_t span_;
  int64_t next_;
  int64_t quiet_until_ = 0;
};

/// Renews what a process shows its peers before it ends, as long as it lives,
/// in a thread of its own; connections that are open go on.
class CertificateRenewal {
public:
  struct Options {
    std::shared_ptr<TlsContext> tls; ///< null: nothing is renewed
    /// Asked where there is no authority's key: HOST:PORT,…
    std::string coordinators;
    /// Takes a line: renewed, or not renewed and why; on another thread.
    std::function<void(const std::string& line)> log;
    /// Told after each renewal; on another thread.
    std::function<void()> renewed;
  };

  explicit CertificateRenewal(Options options);
  /// An attempt that is under way is waited for, at most its deadline.
  ~CertificateRenewal();
  CertificateRenewal(const CertificateRenewal&) = delete;
  CertificateRenewal& operator=(const CertificateRenewal&) = delete;

private:
  void run();
  /// Returns false when this object ends.
  bool wait_until(int64_t unix_seconds);
  /// Errors: InputError.
  void renew();

  Options options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ends_ = false;
  std::thread thread_;
};

} // namespace troupe
