#include "apps/top/screen.hpp"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <stdexcept>

namespace troupe {
namespace {

constexpr auto enter_screen = "\x1b[?1049h\x1b[?25l";
constexpr auto leave_screen = "\x1b[?25h\x1b[?1049l";
constexpr char suspend = '\x1a';

sigset_t watched_signals() {
  sigset_t out;
  sigemptyset(&out);
  for (int one : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH})
    sigaddset(&out, one);
  return out;
}

/// A terminal takes all of it, or is gone: then SIGHUP says so.
void write_all(const std::string& text) {
  size_t done = 0;
  while (done < text.size()) {
    const auto wrote = ::write(STDOUT_FILENO, text.data() + done,
                               text.size() - done);
    if (wrote < 0 && errno != EINTR)
      return;
    done += static_cast<size_t>(std::max<ssize_t>(wrote, 0));
  }
}

winsize size_of_terminal() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
    size = {24, 80, 0, 0};
  return size;
}

} // namespace

Screen::Screen() {
  if (isatty(STDOUT_FILENO) == 0)
    throw std::runtime_error("no terminal to draw on");
  const auto watched = watched_signals();
  pthread_sigmask(SIG_BLOCK, &watched, nullptr);
  signals_ = signalfd(-1, &watched, SFD_NONBLOCK | SFD_CLOEXEC);
  if (signals_ < 0)
    throw std::runtime_error(std::string{"signalfd: "} + std::strerror(errno));
  keys_ = tcgetattr(STDIN_FILENO, &before_) == 0;
  enter();
}

Screen::~Screen() {
  leave();
  ::close(signals_);
}

void Screen::enter() {
  if (keys_) {
    auto raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  }
  write_all(enter_screen);
}

void Screen::leave() {
  write_all(leave_screen);
  if (keys_)
    tcsetattr(STDIN_FILENO, TCSANOW, &before_);
}

void Screen::stop() {
  leave();
  std::raise(SIGTSTP); // returns when it goes on
  enter();
}

size_t Screen::width() const {
  return size_of_terminal().ws_col;
}

size_t Screen::height() const {
  return size_of_terminal().ws_row;
}

void Screen::draw(const std::vector<std::string>& lines) {
  std::string text = "\x1b[H";
  for (size_t i = 0; i < lines.size(); ++i)
    text += lines[i] + "\x1b[K" + (i + 1 < lines.size() ? "\r\n" : "");
  write_all(text + "\x1b[J");
}

Screen::Event Screen::wait(std::chrono::milliseconds longest) {
  Event out;
  std::array<pollfd, 2> polled{pollfd{signals_, POLLIN, 0},
                               pollfd{keys_ ? STDIN_FILENO : -1, POLLIN, 0}};
  if (poll(polled.data(), polled.size(), static_cast<int>(longest.count()))
      <= 0)
    return out;
  signalfd_siginfo signal{};
  while (::read(signals_, &signal, sizeof signal) == sizeof signal)
    if (signal.ssi_signo != SIGWINCH)
      out.signal = static_cast<int>(signal.ssi_signo);
  std::array<char, 256> typed{};
  if ((polled[1].revents & POLLIN) != 0)
    if (const auto got = ::read(STDIN_FILENO, typed.data(), typed.size());
        got > 0)
      out.typed.assign(typed.data(), static_cast<size_t>(got));
  if ((polled[1].revents & (POLLHUP | POLLERR)) != 0)
    out.signal = SIGHUP; // the terminal is gone
  if (const auto at = out.typed.find(suspend); at != std::string::npos) {
    out.typed.erase(at, 1);
    stop();
  }
  return out;
}

} // namespace troupe
