#include "actors/certificates/certificate_renewal.hpp"

#include "actors/certificates/petitioner.hpp"
#include "kernels/base/error.hpp"

#include <pthread.h>

#include <algorithm>
#include <filesystem>

namespace troupe {
namespace {

constexpr std::chrono::seconds ask_deadline{2};
constexpr int64_t longest_pause_s = 600;
constexpr int64_t backdated_s = 3600;

} // namespace

RenewalPlan::RenewalPlan(int64_t issued, int64_t ends)
  : ends_(ends),
    span_(std::max<int64_t>(1, ends - issued)),
    next_(issued + span_ * 2 / 5) {}

bool RenewalPlan::failed(int64_t now) {
  next_ = now + std::clamp<int64_t>(span_ / 16, 1, longest_pause_s);
  if (ends_ - now > span_ / 4 || now < quiet_until_)
    return false;
  quiet_until_ = now + std::clamp<int64_t>(span_ / 8, 5, longest_pause_s);
  return true;
}

CertificateRenewal::CertificateRenewal(Options options)
  : options_(std::move(options)) {
  if (options_.tls)
    thread_ = std::thread{[this] { run(); }};
}

CertificateRenewal::~CertificateRenewal() {
  {
    const std::lock_guard guard{mutex_};
    ends_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable())
    thread_.join();
}

bool CertificateRenewal::wait_until(int64_t unix_seconds) {
  std::unique_lock guard{mutex_};
  const auto source = options_.tls->credentials().source;
  // It sleeps in pieces: the clock may be set meanwhile.
  while (!ends_ && source.now() < unix_seconds)
    changed_.wait_for(guard, std::chrono::seconds{std::min<int64_t>(
                               60, unix_seconds - source.now())});
  return !ends_;
}

void CertificateRenewal::run() {
  pthread_setname_np(pthread_self(), "renewal");
  const auto say = [this](const std::string& line) {
    if (options_.log)
      options_.log(line);
  };
  for (;;) {
    const auto held = options_.tls->credentials();
    const auto certificate = certificate_in(held.certificate);
    const auto period = period_of(certificate.get());
    RenewalPlan plan{period.from + backdated_s, period.to};
    for (;;) {
      if (!wait_until(plan.next()))
        return;
      try {
        renew();
        break;
      } catch (const std::exception& failure) {
        if (plan.failed(held.source.now()))
          say("the certificate of " + to_string(held.name) + " ends at "
              + date(period.to) + " and is not renewed: " + failure.what());
      }
    }
  }
}

void CertificateRenewal::renew() {
  const auto made = troupe::renewed(*options_.tls, options_.coordinators,
                                    ask_deadline);
  options_.tls->renew(made);
  if (options_.renewed)
    options_.renewed();
  const auto certificate = certificate_in(made.certificate);
  if (options_.log)
    options_.log("the certificate of " + to_string(made.name)
                 + " is renewed: until "
                 + date(period_of(certificate.get()).to));
  std::error_code failure;
  if (made.authority_key.empty()
      && std::filesystem::exists(
        made.folder + '/' + file_stem(made.name) + ".pem", failure))
    save_credentials(made.folder, made);
}

} // namespace troupe
