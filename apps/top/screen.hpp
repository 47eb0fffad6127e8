#pragma once

#include <termios.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace troupe {

/// The whole of a terminal, for as long as it lives: the alternate screen, no
/// cursor, keys as they are typed. However the program ends but by SIGKILL, the
/// terminal is what it was.
class Screen {
public:
  /// Errors: std::runtime_error where standard output is no terminal.
  Screen();
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  size_t width() const;
  size_t height() const;
  void draw(const std::vector<std::string>& lines);

  struct Event {
    std::string typed; ///< may be empty
    int signal = 0;    ///< SIGINT, SIGTERM or SIGHUP came
  };
  /// Waits for keys or a signal at most so long. A change of size ends it, too;
  /// Ctrl-Z stops the program here, and goes on here.
  Event wait(std::chrono::milliseconds longest);

private:
  void enter();
  void leave();
  void stop();

  int signals_ = -1;  ///< a descriptor
  bool keys_ = false; ///< standard input is a terminal
  termios before_{};
};

} // namespace troupe
