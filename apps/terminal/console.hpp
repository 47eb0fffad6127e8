#pragma once

#include "actors/wire/messages/supervision.hpp"

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace troupe {

/// "loss 0.3000  accuracy 0.9120"
std::string in_words(const std::vector<Measure>& measures);

/// Shows how training goes: on a terminal one line, redrawn in place at most
/// ten times a second; on a pipe one plain line an epoch. When nobody reads any
/// more (`| head -1`) the rest goes to /dev/null. Used by one thread at a time.
class Console {
public:
  /// Whether `out` is a terminal that redraws a line; TERM says "dumb", or
  /// nothing, of one that does not.
  static bool redraws(std::FILE* out);

  /// `out` is borrowed. quiet: nothing at all is shown. color: escape
  /// sequences beyond what redrawing takes, on a terminal only.
  Console(bool quiet, bool color, bool is_tty, std::FILE* out);
  /// Does what done() does.
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  /// Redraws the bar; `step` of `total` are committed (total 0: no known end).
  /// A loss that is not finite yet shows as "-", an ETA below 0 not at all.
  void progress(uint64_t step, uint64_t total, double loss,
                double samples_per_second, double eta_seconds);
  /// Prints a line for an epoch that ended; `epoch` counts from 1.
  void epoch(uint64_t epoch, uint64_t step, double loss,
             double samples_per_second, const std::vector<Measure>& evaluation);
  /// Prints a line of its own, clear of the bar.
  void line(const std::string& text);
  /// Wipes the bar; call before others write to the terminal.
  void done();

private:
  void clear();
  void draw();
  void flush();

  const bool quiet_;
  const bool color_;
  const bool is_tty_;
  std::FILE* const out_;
  std::string bar_;       ///< what progress() composed last
  bool drawn_ = false;    ///< the bar is on the screen
  uint64_t drawn_ms_ = 0; ///< steady clock, when it was drawn last
};

} // namespace troupe
