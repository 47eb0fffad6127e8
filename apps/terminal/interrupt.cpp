#include "apps/terminal/interrupt.hpp"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <thread>
#include <utility>

namespace troupe {
namespace {

using Clock = std::chrono::steady_clock;

/// Two signals that are so close are one wish.
constexpr std::chrono::milliseconds one_wish{250};
/// Whoever writes into a folder while it is removed is at it so often at most.
constexpr int max_removals = 100;
constexpr int status_of_signal = 128;

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

const char* word_of(int signal) {
  switch (signal) {
    case 0:
      return "";
    case SIGTERM:
      return "terminated";
    case SIGHUP:
      return "hung up";
    default:
      return "interrupted";
  }
}

} // namespace

void hold_signals() {
  const auto held = set_of({SIGINT, SIGTERM, SIGHUP});
  pthread_sigmask(SIG_BLOCK, &held, nullptr);
}

void let_signals_go() {
  const auto held = set_of({SIGINT, SIGTERM, SIGHUP});
  pthread_sigmask(SIG_UNBLOCK, &held, nullptr);
}

struct Interrupt::State {
  std::mutex mutex;
  int received = 0;
  bool asked = false;
  std::string folder;
  std::function<void(bool)> on_stop;

  /// The mutex is held, so that nobody else says how it ends.
  [[noreturn]] void end_at_once(int signal, const char* line) {
    std::fprintf(stderr, "troupe: %s %s\n", word_of(signal), line);
    std::error_code ignored;
    for (int i = 0; i < max_removals && !folder.empty(); ++i) {
      std::filesystem::remove_all(folder, ignored);
      if (!std::filesystem::exists(folder, ignored))
        break;
    }
    _exit(status_of_signal + signal);
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
      const std::lock_guard guard{mutex};
      if (received == 0) {
        first = Clock::now();
        received = signal;
        if (!asked)
          end_at_once(signal, "before the first step: nothing was saved");
      } else if (signal != SIGHUP && Clock::now() - first > one_wish) {
        end_at_once(signal, "again: ended at once, what was not saved is lost");
      }
    }
  }
};

Interrupt::Interrupt(bool supervised) : state_(std::make_shared<State>()) {
  state_->asked = supervised;
  signal(SIGPIPE, SIG_IGN);
  auto watched = set_of({SIGINT, SIGTERM});
  for (int one : {SIGHUP, SIGTSTP})
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
  return word_of(state_->received);
}

void Interrupt::undisturbed(const std::function<void()>& call) {
  const std::lock_guard guard{state_->mutex};
  call();
}

void Interrupt::removes(const std::string& folder) {
  const std::lock_guard guard{state_->mutex};
  state_->folder = folder;
}

void Interrupt::on_stop(std::function<void(bool)> call) {
  const std::lock_guard guard{state_->mutex};
  state_->on_stop = std::move(call);
}

} // namespace troupe
