// Preloaded by process/first_moments_test.py: SIGTERM comes while libraries are
// initialised, before the program's main.

#include <unistd.h>

#include <csignal>

namespace {

[[gnu::constructor]] void send() {
  kill(getpid(), SIGTERM);
}

} // namespace
