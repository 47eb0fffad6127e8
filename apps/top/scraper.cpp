#include "apps/top/scraper.hpp"

#include "kernels/files/shown_text.hpp"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <utility>

namespace troupe {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto period = 200ms;
/// Of looks for a while, which are few; however long an answer takes.
constexpr auto look_period = 250ms;
constexpr auto longest_rest = 500ms;
constexpr int share = 20; ///< of the time, an answer takes one in so many
/// A coordinator that its supervisor starts again is back by then.
constexpr auto longest_silence = 10s;
constexpr auto timeout = 2s;

} // namespace

JobView watch_for(const std::string& address,
                  const ScrapeCredentials& credentials,
                  std::chrono::milliseconds time,
                  const std::function<bool(const JobView&)>& enough,
                  const std::function<bool(const JobView&)>& undecided) {
  const auto begin = Clock::now();
  JobWatch watch;
  for (;;) {
    const auto asked = Clock::now();
    const auto job =
      watch.look(scrape(address, credentials),
                 std::chrono::duration<double>(asked - begin).count());
    const auto now = Clock::now();
    if (enough && enough(job))
      return job;
    const auto spent = now - begin;
    if (spent >= 2 * time || (spent >= time && !(undecided && undecided(job))))
      return job;
    const auto left = (spent < time ? time : 2 * time) - spent;
    std::this_thread::sleep_for(
      std::min(left, std::clamp<Clock::duration>(share * (now - asked),
                                                 look_period, longest_rest)));
  }
}

Scraper::Scraper(std::string address, ScrapeCredentials credentials)
  : address_(std::move(address)),
    credentials_(std::move(credentials)),
    thread_([this] { ask_again(); }) {}

Scraper::~Scraper() {
  {
    const std::lock_guard guard{mutex_};
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Scraper::Seen Scraper::take() {
  const std::lock_guard guard{mutex_};
  auto out = seen_;
  seen_.values.clear();
  return out;
}

void Scraper::ask_again() {
  auto heard = Clock::now();
  for (;;) {
    const auto begin = Clock::now();
    Seen next;
    try {
      next.values = scrape(address_, credentials_, timeout);
      heard = Clock::now();
    } catch (const std::runtime_error& failure) {
      next.why = shown_text(failure.what());
    }
    const auto now = Clock::now();
    next.at_s = std::chrono::duration<double>(now.time_since_epoch()).count();
    next.is_over = now - heard > longest_silence;
    std::unique_lock lock{mutex_};
    seen_ = std::move(next);
    const auto rest = std::max<Clock::duration>(period, share * (now - begin));
    if (changed_.wait_for(lock, std::min<Clock::duration>(rest, timeout),
                          [this] { return ends_; }))
      return;
  }
}

} // namespace troupe
