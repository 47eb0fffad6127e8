#include "apps/interrupt.hpp"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <thread>

namespace troupe {
namespace {

std::atomic<int> received{0};
std::atomic<bool> asked{false};

} // namespace

Interrupt::Interrupt() {
  sigset_t watched;
  sigemptyset(&watched);
  sigaddset(&watched, SIGINT);
  sigaddset(&watched, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &watched, nullptr);
  std::thread{[watched] {
    for (int count = 0;;) {
      int signal = 0;
      if (sigwait(&watched, &signal) != 0)
        continue;
      received = signal;
      if (!asked)
        std::fputs("troupe: interrupted before the first step: nothing was "
                   "saved\n",
                   stderr);
      if (!asked || ++count == 3)
        _exit(130);
    }
  }}.detach();
}

std::string Interrupt::reason() const {
  asked = true;
  switch (received.load()) {
    case 0:
      return "";
    case SIGTERM:
      return "terminated";
    default:
      return "interrupted";
  }
}

} // namespace troupe
