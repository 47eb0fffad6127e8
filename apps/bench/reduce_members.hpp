#pragma once

#include "apps/bench/reduce_board.hpp"
#include "apps/bench/reduce_side.hpp"

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace troupe {

/// Troupe's own side: members as threads of this process, or as processes that
/// it forks. They sleep between rounds.
class ReduceMembers : public ReduceSide {
public:
  /// Called once a member, in its own thread or process.
  using MakeCarrier = std::function<std::unique_ptr<ReduceCarrier>(uint32_t)>;
  struct Options {
    std::string name;
    uint32_t members = 2;
    bool processes = false; ///< forked: no other thread may run
    bool exact_in_any_order = false;
    MakeCarrier make;
    /// Called in this process once all members are there.
    std::function<void()> started = [] {};
  };

  explicit ReduceMembers(Options options);
  /// Ends the members; kills a process that does not go.
  ~ReduceMembers() override;
  ReduceMembers(const ReduceMembers&) = delete;
  ReduceMembers& operator=(const ReduceMembers&) = delete;

  std::string name() const override { return options_.name; }
  std::string version() const override;
  Measured run(const Round& round) override;

private:
  void serve(uint32_t rank);
  void start_process(uint32_t rank);
  void check_alive();

  Options options_;
  std::unique_ptr<ReduceBoard, ReduceBoard::Free> board_;
  std::vector<std::thread> threads_;
  std::vector<int> processes_; ///< ids, -1 once reaped
};

} // namespace troupe
