#pragma once

#include "actors/page/job_watch.hpp"
#include "apps/process/scrape.hpp"

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace troupe {

/// Looks at a run for a while, or until `enough`; for up to twice as long while
/// `undecided`. Errors: those of scrape().
JobView watch_for(const std::string& address,
                  const ScrapeCredentials& credentials,
                  std::chrono::milliseconds time,
                  const std::function<bool(const JobView&)>& enough = {},
                  const std::function<bool(const JobView&)>& undecided = {});

/// Asks a run for its metrics again and again, on a thread of its own: five
/// times a second, or less often where an answer takes long, so that who is
/// asked spends a twentieth of its time on it at most.
class Scraper {
public:
  Scraper(std::string address, ScrapeCredentials credentials);
  ~Scraper();
  Scraper(const Scraper&) = delete;
  Scraper& operator=(const Scraper&) = delete;

  struct Seen {
    std::vector<ScrapedValue> values; ///< empty: nothing new
    double at_s = 0;                  ///< when they came, of a steady clock
    std::string why;                  ///< there is no answer; empty: there is
    bool is_over = false;             ///< there was none for long
  };
  /// What came since the last call.
  Seen take();

private:
  void ask_again();

  std::string address_;
  ScrapeCredentials credentials_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ends_ = false;
  Seen seen_;
  std::thread thread_; ///< the last member: it uses the others
};

} // namespace troupe
