#pragma once

#include "actors/page/scraped_value.hpp"

#include <cstddef>
#include <deque>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

/// What nobody knows (yet): a rate before there are two reports of a role.
inline constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

/// What a role sends to another one over TCP.
struct LinkView {
  std::string peer;
  double delivered = unknown; ///< bytes a second, acknowledged by its system
  double busy = unknown;      ///< share of the time, 0 to 1
  double stalled_s = 0;       ///< nothing was acknowledged for so long
};

/// What a role does, by what it reported in the last seconds.
struct RoleView {
  std::string role;
  double cpu = unknown;          ///< cores of its process
  double memory = unknown;       ///< bytes of its process, resident
  double compute_ms = unknown;   ///< means of a step
  double data_ms = unknown;      ///< the same: part of it, until samples come
  double decode_ms = unknown;    ///< the same: part of that, decoding them
  double pull_ms = unknown;      ///< the same
  double push_ms = unknown;      ///< the same
  double reduce_ms = unknown;    ///< waiting for sums, or for what stages send
  double busy = unknown;         ///< shard, reader: share of the time, 0 to 1
  double sent = unknown;         ///< bytes a second, on links
  double received = unknown;     ///< the same
  double queued = unknown;       ///< bytes that wait for a link
  double restarts = unknown;     ///< by its supervisor
  std::vector<LinkView> links;   ///< over TCP
  std::vector<std::string> tags; ///< "left out: …", "waits for ps:0: …"
  size_t awaited_by = 0;         ///< roles
  /// Reader: looks of the last seconds at which somebody waited for samples of
  /// it, for longer than is usual.
  size_t owed_samples = 0;
  bool left_out = false;
};

/// What a run does.
struct JobView {
  double step = 0;
  double steps = unknown; ///< that it will make
  double data_epoch = 0;
  double loss = unknown;
  double membership_epoch = 0;
  double restarts = 0;
  double expected = 0, present = 0, left_out = 0; ///< members
  double steps_per_second = unknown;
  double samples_per_second = unknown;
  double since_commit_s = unknown;
  double late_s = 0;       ///< for how long looks have found the same one late
  std::string late;        ///< who holds up a step that is late; empty: none is
  double checkpoint_s = 0; ///< one has been written for so long by now
  double usual_checkpoint_s = unknown; ///< mean of those that were written
  std::string was_late; ///< what that said last, in the last seconds

  double eta_s() const { return (steps - step) / steps_per_second; }
  std::vector<RoleView> roles; ///< worker:9 before worker:10
};

/// Makes views of what a run's metrics say from time to time. Roles report
/// about once a second, each when it likes: rates are over the reports of the
/// last seconds, whenever the run was asked.
class JobWatch {
public:
  /// `seconds`: of a clock that only rises.
  JobView look(const std::vector<ScrapedValue>& values, double seconds);

private:
  /// Counters and gauges, each summed over its labels.
  using Totals = std::map<std::string, double>;
  struct Report {
    double at = 0;
    Totals totals;
  };
  using Reports = std::deque<Report>; ///< of one role, the oldest first

  const Reports& keep(const std::string& role, Totals totals, double now);
  void remember(const std::vector<ScrapedValue>& values, double now,
                JobView& job);

  std::map<std::string, Reports> reports_;
  std::deque<std::pair<double, std::string>> owed_; ///< when, by which reader
  std::pair<double, std::string> late_;             ///< when, and who
  double late_since_ = 0; ///< the same one, look after look
  double looked_ = 0;     ///< when, last
};

/// "worker" of "worker:3"; the whole name of others.
std::string kind_of(const std::string& role);

} // namespace troupe
