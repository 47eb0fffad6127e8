#pragma once

#include <array>
#include <csignal>
#include <string>
#include <string_view>

namespace troupe {

/// A signal that asks a run to end in good order, and the word for it.
struct StopSignal {
  int number;
  std::string_view word;
  int status() const { return 128 + number; } ///< that it ends with
};

inline constexpr std::array stop_signals{StopSignal{SIGINT, "interrupted"},
                                         StopSignal{SIGTERM, "terminated"},
                                         StopSignal{SIGHUP, "hung up"}};

/// The exit status of a run that was ended for this reason, one of these words;
/// of any other, as if Ctrl-C had come.
inline int stop_status(std::string_view why) {
  for (const auto& one : stop_signals)
    if (one.word == why)
      return one.status();
  return stop_signals.front().status();
}

/// Whether a process with this exit status was told to end.
inline bool is_stop_status(int status) {
  for (const auto& one : stop_signals)
    if (one.status() == status)
      return true;
  return false;
}

/// The exit status of a role whose samples are wrong (EX_DATAERR of
/// <sysexits.h>).
inline constexpr int bad_input_status = 65;

/// The word for a signal; empty of none of these.
inline std::string stop_word(int signal) {
  for (const auto& one : stop_signals)
    if (one.number == signal)
      return std::string{one.word};
  return {};
}

} // namespace troupe
