#include "apps/terminal/console.hpp"

#include "actors/process/measure_text.hpp"
#include "apps/terminal/short_numbers.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>

namespace troupe {

namespace {

constexpr uint64_t redraw_ms = 100;
constexpr short gone = POLLERR | POLLHUP; ///< of who read
constexpr auto wipe = "\r\x1b[K";

uint64_t now_ms() {
  using namespace std::chrono;
  auto now = steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(duration_cast<milliseconds>(now).count());
}

size_t width_of(std::FILE* out) {
  winsize size{};
  auto handle = fileno(out);
  if (handle >= 0 && ioctl(handle, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    return size.ws_col;
  return 80;
}

template <class... Values>
std::string print(const char* format, Values... values) {
  char text[128];
  auto length = std::snprintf(text, sizeof(text), format, values...);
  return {text, std::min<size_t>(static_cast<size_t>(std::max(length, 0)),
                                 sizeof(text) - 1)};
}

} // namespace

std::string in_words(const std::vector<Measure>& measures) {
  std::string out;
  for (const auto& [name, value] : measures)
    out += (out.empty() ? "" : "  ") + name + ' ' + measure_text(value);
  return out;
}

bool Console::redraws(std::FILE* out) {
  const auto* term = std::getenv("TERM");
  const std::string kind = term == nullptr ? "" : term;
  return isatty(fileno(out)) != 0 && !kind.empty() && kind != "dumb";
}

Console::Console(bool quiet, bool color, bool is_tty, std::FILE* out)
  : quiet_(quiet), color_(color && is_tty), is_tty_(is_tty), out_(out) {}

Console::~Console() {
  done();
}

void Console::progress(uint64_t step, uint64_t total, double loss,
                       double samples_per_second, double eta_seconds) {
  if (quiet_ || !is_tty_)
    return;
  auto now = now_ms();
  if (drawn_ && now - drawn_ms_ < redraw_ms)
    return;
  auto text = "step " + std::to_string(step)
              + (total > 0 ? std::string{"/"} + std::to_string(total) : "")
              + "  loss " + measure_text(loss) + "  "
              + short_number(samples_per_second) + " samples/s";
  if (std::isfinite(eta_seconds) && eta_seconds >= 0)
    text += "  ETA " + short_duration(eta_seconds);
  // The last column stays free: a full line makes some terminals scroll.
  const auto width = width_of(out_) - 1;
  constexpr size_t smallest = 10;
  constexpr size_t largest = 30;
  auto room = width > text.size() + 4 ? width - text.size() - 4 : 0;
  if (total > 0 && room >= smallest) {
    auto cells = std::min(room, largest);
    auto share = static_cast<double>(std::min(step, total))
                 / static_cast<double>(total);
    auto full = static_cast<size_t>(share * static_cast<double>(cells));
    bar_ = std::string{'['} + (color_ ? "\x1b[32m" : "")
           + std::string(full, '=') + (color_ ? "\x1b[0m" : "")
           + std::string(cells - full, ' ') + "]  " + text;
  } else {
    bar_ = text.substr(0, width);
  }
  draw();
  drawn_ms_ = now;
}

void Console::epoch(uint64_t epoch, uint64_t step, double loss,
                    double samples_per_second,
                    const std::vector<Measure>& evaluation) {
  auto text = "epoch " + std::to_string(epoch) + "  step "
              + std::to_string(step) + "  loss " + measure_text(loss);
  if (!evaluation.empty())
    text += "  eval " + in_words(evaluation);
  line(text + "  " + short_number(samples_per_second) + " samples/s");
}

void Console::line(const std::string& text) {
  if (quiet_)
    return;
  const auto again = drawn_;
  clear();
  std::fprintf(out_, "%s\n", text.c_str());
  if (again)
    draw();
  flush();
}

void Console::done() {
  clear();
  flush();
}

/// Nobody reads what a pipe or a terminal has been closed for: that is no
/// failure of the run, so the stream is made one that can be written to.
void Console::flush() {
  std::fflush(out_);
  if (std::ferror(out_) == 0)
    return;
  const auto handle = fileno(out_);
  pollfd end{handle, 0, 0};
  if (handle < 0 || poll(&end, 1, 0) <= 0 || (end.revents & gone) == 0)
    return;
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nowhere < 0)
    return;
  dup2(nowhere, handle);
  close(nowhere);
  std::clearerr(out_);
  std::fflush(out_);
}

void Console::clear() {
  if (drawn_)
    std::fputs(wipe, out_);
  drawn_ = false;
}

void Console::draw() {
  std::fprintf(out_, "%s%s", wipe, bar_.c_str());
  flush();
  drawn_ = true;
}

} // namespace troupe
