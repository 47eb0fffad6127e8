#pragma once

#include "monitoring/metrics.hpp"
#include "monitoring/web_page.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

class StoryFeed;

/// A page of a running job for a browser, and what it asks for once a second.
/// It only reads. Both are served beside the job's metrics, to the same
/// readers.
///
/// `/` is a file of HTML without a request to anywhere else, under a policy
/// that lets only its own script run. `/snapshot?after=T.N` is a JSON object:
/// `run`, what the job is; `now`, what it does (job_json.hpp); `spans`, what
/// roles did last (recent_spans.hpp); and what happened after `cursor` T.N,
/// which the one before gave (run_story.hpp). Without it, or with one of
/// another coordinator, it is all that is kept. What costs something is made
/// four times a second at most, however many ask, and only while somebody does.
class JobPage {
public:
  struct Options {
    uint64_t job_id = 0;
    uint64_t term = 1;   ///< of the coordinator
    std::string model{}; ///< as it was asked for; it may be anything
    std::string strategy{};
    /// What a scrape would get (MetricExporter::reader).
    std::function<std::vector<MetricSample>()> read{};
    std::string flight{}; ///< folder of recorders; empty: none
    /// Origins of pages of who may follow this coordinator
    /// ("http://HOST:PORT").
    std::vector<std::string> others{};
  };

  /// `feed`: to whom the coordinator tells what it does.
  JobPage(Options options, std::shared_ptr<StoryFeed> feed);
  ~JobPage();
  JobPage(const JobPage&) = delete;
  JobPage& operator=(const JobPage&) = delete;

  /// What is to be served: they hold what they need.
  std::vector<WebPage> pages() const;

private:
  struct Snapshots;
  std::shared_ptr<Snapshots> snapshots_;
  std::vector<std::string> others_;
};

} // namespace troupe
