#pragma once

#include "apps/bench/reduce_side.hpp"

#include <chrono>
#include <string>
#include <vector>

namespace troupe {

/// Another system's all-reduce, in a program that is driven over its standard
/// input and output; tests/peers/driven.hpp says how.
class DrivenPeer : public ReduceSide {
public:
  /// Starts it. `name` as shown; arguments[0] is looked for in PATH.
  /// Errors: InputError that says how to start it by hand.
  DrivenPeer(std::string name, std::vector<std::string> arguments);
  /// Closes its input; kills it when it does not go.
  ~DrivenPeer() override;
  DrivenPeer(const DrivenPeer&) = delete;
  DrivenPeer& operator=(const DrivenPeer&) = delete;

  std::string name() const override { return name_; }
  std::string version() const override { return version_; }
  Measured run(const Round& round) override;

private:
  /// Errors: InputError after `limit`, at the end, or for a line "error …".
  std::string line(std::chrono::seconds limit);
  [[noreturn]] void refuse(const std::string& what) const;
  void end();

  std::string name_;
  std::vector<std::string> arguments_;
  std::string version_;
  std::string rest_; ///< read, and no line yet
  int process_ = -1;
  int input_ = -1; ///< of the program
  int output_ = -1;
};

} // namespace troupe
