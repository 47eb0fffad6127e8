#include "apps/terminal/interrupt.hpp"

#include "actors/process/stop_status.hpp"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace troupe {
namespace {

using Clock = std::chrono::steady_clock;

/// Two signals that are so close are one wish.
constexpr std::chrono::milliseconds one_wish{250};
/// Whoever writes into a folder while it is removed is at it so often at most.
constexpr int max_removals = 100;

sigset_t set_of(std::initializer_list<int> signals) {
  sigset_t out;
  sigemptyset(&out);
  for (int one : signals)
    sigaddset(&out, one);
  return out;
}

bool is_ignored(int signal) {
  struct sigaction now {};
  return sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

} // namespace

void hold_signals() {
  const auto held = set_of({SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2});
  pthread_sigmask(SIG_BLOCK, &held, nullptr);
}

void let_signals_go() {
  const auto held = set_of({SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2});
  pthread_sigmask(SIG_UNBLOCK, &held, nullptr);
}

struct Interrupt::State {
  std::recursive_mutex mutex; ///< undisturbed() calls what takes it again
  int received = 0;
  bool asked = false;
  const char* line = nullptr; ///< of an end at the first signal
  std::vector<std::string> places;
  std::function<void(bool)> on_stop;

  /// The mutex is held, so that nobody else says how it ends.
  [[noreturn]] void end_at_once(int signal, const char* line) {
    std::fprintf(stderr, "troupe: %s %s\n", stop_word(signal).c_str(), line);
    for (const auto& place : places)
      remove(place);
    _exit(stop_status(stop_word(signal)));
  }

  static void remove(const std::string& place) {
    std::error_code ignored;
    for (int i = 0; i < max_removals; ++i) {
      std::filesystem::remove_all(place, ignored);
      if (!std::filesystem::exists(place, ignored))
        return;
    }
  }

  void stand_still() {
    std::function<void(bool)> call;
    {
      const std::lock_guard guard{mutex};
      call = on_stop;
    }
    if (call)
      call(true);
    kill(getpid(), SIGSTOP);
    // Another thread may be the one that stops all of them, a moment later.
    const auto goes_on = set_of({SIGCONT});
    int signal = 0;
    sigwait(&goes_on, &signal);
    if (call)
      call(false);
  }

  [[noreturn]] void watch(const sigset_t& watched) {
    Clock::time_point first;
    for (;;) {
      int signal = 0;
      if (sigwait(&watched, &signal) != 0)
        continue;
      if (signal == SIGTSTP) {
        stand_still();
        continue;
      }
      if (signal == SIGUSR1 || signal == SIGUSR2)
        signal = SIGTERM;
      const std::lock_guard guard{mutex};
      if (received == 0) {
        first = Clock::now();
        received = signal;
        if (!asked)
          end_at_once(signal, line);
      } else if (signal != SIGHUP && Clock::now() - first > one_wish) {
        end_at_once(signal, "again: ended at once, what was not saved is lost");
      }
    }
  }
};

Interrupt::Interrupt(bool supervised, const char* line)
  : state_(std::make_shared<State>()) {
  state_->asked = supervised;
  state_->line = line;
  signal(SIGPIPE, SIG_IGN);
  auto watched = set_of({SIGINT, SIGTERM});
  for (int one : {SIGHUP, SIGTSTP, SIGUSR1, SIGUSR2})
    if (!is_ignored(one))
      sigaddset(&watched, one);
  auto blocked = watched;
  sigaddset(&blocked, SIGCONT);
  pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
  std::thread{[state = state_, watched] { state->watch(watched); }}.detach();
}

std::string Interrupt::reason() const {
  const std::lock_guard guard{state_->mutex};
  state_->asked = true;
  return stop_word(state_->received);
}

void Interrupt::undisturbed(const std::function<void()>& call) {
  const std::lock_guard guard{state_->mutex};
  call();
}

void Interrupt::removes(const std::string& place) {
  const std::lock_guard guard{state_->mutex};
  state_->places.push_back(place);
}

void Interrupt::on_stop(std::function<void(bool)> call) {
  const std::lock_guard guard{state_->mutex};
  state_->on_stop = std::move(call);
}

} // namespace troupe
