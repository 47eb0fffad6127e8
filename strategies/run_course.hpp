#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace troupe {

/// Which step is a run's last, and how far its end is:
///
///   running -> pausing -> ending -> concluding -> over
///      |   (a signal only)   ^
///      +---------------------+   the last step is committed
///
/// and from anywhere to over when it fails. A run ends by itself after so many
/// steps, or earlier by a wish: whoever heard a signal says so, most often
/// several, and the first one counts.
class RunCourse {
public:
  enum class Stage : uint8_t { running, pausing, ending, concluding, over };

  explicit RunCourse(uint64_t steps) : total_(steps), end_(steps) {}

  Stage stage() const { return stage_; }
  bool is_running() const { return stage_ == Stage::running; }
  bool is_over() const { return stage_ == Stage::over; }
  uint64_t end() const { return end_; } ///< the last step, as far as is known
  /// By itself, where all of its steps are committed, or by a wish.
  bool is_ending(uint64_t steps) const;

  // --- a wish ---------------------------------------------------------------

  enum class Stopped : uint8_t {
    before, ///< an earlier wish, or nothing is left to end
    as_is,  ///< all steps were made: no evaluation is waited for any more
    pauses, ///< the steps under way are finished first
  };
  /// `why`: "interrupted", "terminated", "hung up".
  Stopped stop(const std::string& why, uint64_t steps);
  bool is_stopped() const { return why_.has_value(); }
  /// Errors: of a run that nobody stopped it is a bug and asserts.
  const std::string& why() const;
  /// All who begin steps pause after this one.
  void end_at(uint64_t step);
  /// Members of a new epoch have to be told where they end, also of one that
  /// begins while the last checkpoint is written.
  bool ends_early() const {
    return (stage_ == Stage::ending || stage_ == Stage::concluding)
           && end_ != total_;
  }

  // --- the last version of all slices ---------------------------------------

  /// Async: the last lease is consumed, which made so many steps. Tells whether
  /// the members of this epoch are to be asked for what they hold: once.
  bool ask_last(uint64_t epoch, uint64_t steps);
  bool asked_last() const { return asked_epoch_ != 0; }

  // --- the way out ----------------------------------------------------------

  /// The last version is here, and `committed` says whether all steps are.
  /// False: something has to happen before.
  bool conclude(bool committed);
  /// The last version was evaluated.
  void evaluated() { evaluated_ = true; }
  /// Whether its evaluation is waited for, by a run that evaluates.
  bool awaits_evaluation() const { return !evaluated_ && !is_stopped(); }
  /// True once: what the run leaves behind is to be made.
  bool begin_outputs();
  /// What is being made is all that is left to do: nobody else is needed.
  bool makes_outputs() const { return makes_outputs_; }
  void finish() { stage_ = Stage::over; }

private:
  uint64_t total_;
  uint64_t end_;
  Stage stage_ = Stage::running;
  std::optional<std::string> why_;
  uint64_t asked_epoch_ = 0;
  bool evaluated_ = false;
  bool makes_outputs_ = false;
};

} // namespace troupe
