#pragma once

#include "actors/launch/job_runner.hpp"
#include "apps/tensorboard/spread_book.hpp"
#include "kernels/graph/graph.hpp"
#include "strategies/learning_rate.hpp"

#include <map>
#include <string>

namespace troupe {

/// A file of events in a folder that TensorBoard watches: loss, rates and
/// learning rate as the run goes on, what held-out samples gave, how weights
/// and gradients are spread, the graph and the hyperparameters. Used by one
/// thread at a time.
class EventLog {
public:
  struct Subject {
    Graph graph;
    LrOptions lr; ///< its total is what the run says
    std::map<std::string, std::string> parameters;
  };
  /// Errors: InputError when the folder or file cannot be made.
  EventLog(const std::string& folder, const Subject& subject);
  ~EventLog();
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;

  /// Adds itself to whoever is told already.
  void attach(RunEvents& events);
  void end(bool success);

private:
  void show(const Progress& progress);
  void show(const DataEpochEnd& epoch);
  void show(const Spreads& spreads);
  void write(const std::string& event);
  void write_at(uint64_t step, const std::string& event);
  void fail(const std::string& how);

  std::string path_;
  LrOptions lr_;
  SpreadBook spreads_;
  int handle_ = -1;
  bool started_ = false; ///< a step has been written
  bool failed_ = false;  ///< the user was told; the run goes on without it
  std::function<void(const std::string&)> note_;
};

} // namespace troupe
