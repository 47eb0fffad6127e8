#pragma once

#include <functional>
#include <memory>
#include <string>

namespace troupe {

/// Holds SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 back until an Interrupt
/// watches them, or they are let go: so none ends the process before it can end
/// in good order.
void hold_signals();
void let_signals_go();

/// Watches what asks a run to end, on a thread of its own: SIGINT, SIGTERM, and
/// SIGHUP (a terminal that closes) unless it is ignored, as `nohup` has it.
/// SIGUSR1 and SIGUSR2, with which Slurm warns (`--signal=USR1@60`), are
/// SIGTERM unless they are ignored. Construct it before any other thread
/// starts, so that they inherit the blocked mask. The first signal is a reason
/// to end; it ends the process at once as long as nobody has asked for the
/// reason (data are still being read). So does a second one, but for a SIGHUP,
/// or another within a moment: shells, `timeout` and service managers say the
/// same twice. Of a role that a launcher started, which would take that for a
/// failure, the first one waits until the reason is asked for.
///
/// SIGPIPE is ignored: that nobody reads any more is no reason to end.
class Interrupt {
public:
  /// `line`: what is said of an end at the first signal.
  explicit Interrupt(bool supervised = false,
                     const char* line = "before the first step: nothing was "
                                        "saved");

  /// Empty until a signal came; then "interrupted", "terminated" or "hung up".
  std::string reason() const;

  /// Calls `call`: a signal that would end the process at once waits until it
  /// is done. Throws what it throws.
  void undisturbed(const std::function<void()>& call);
  /// This folder or file goes, too, when the process ends at once; so does each
  /// that was named before.
  void removes(const std::string& place);
  /// Called on the watching thread: with true before Ctrl-Z (SIGTSTP) stops
  /// this process, with false when it goes on.
  void on_stop(std::function<void(bool stops)> call);

private:
  struct State;
  std::shared_ptr<State> state_;
};

} // namespace troupe
