#include "actors/sockets/descriptor.hpp"
#include "apps/terminal/interrupt.hpp"

#include <boost/test/unit_test.hpp>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

BOOST_AUTO_TEST_SUITE(interrupt)

namespace {

/// A process that is told to end in the midst of a call; what it wrote by its
/// end, and how it ended.
std::pair<std::string, int> told_within_a_call() {
  int pipe[2];
  BOOST_REQUIRE_EQUAL(::pipe(pipe), 0);
  const auto child = ::fork();
  if (child == 0) {
    troupe::Interrupt told;
    told.undisturbed([&] {
      ::kill(::getpid(), SIGTERM);
      std::this_thread::sleep_for(std::chrono::milliseconds{100});
      [[maybe_unused]] const auto written = ::write(pipe[1], "whole", 5);
    });
    std::this_thread::sleep_for(std::chrono::seconds{60});
    [[maybe_unused]] const auto written = ::write(pipe[1], ", not ended", 11);
    ::_exit(0);
  }
  ::close(pipe[1]);
  const troupe::Descriptor output{pipe[0]};
  std::string text(32, '\0');
  text.resize(
    static_cast<size_t>(::read(output.get(), text.data(), text.size())));
  int status = 0;
  BOOST_REQUIRE_EQUAL(::waitpid(child, &status, 0), child);
  return {text, status};
}

} // namespace

BOOST_AUTO_TEST_CASE(what_must_be_whole_is_done_before_a_signal_ends_it) {
  const auto [text, status] = told_within_a_call();
  BOOST_TEST(text == "whole");
  BOOST_TEST(WIFEXITED(status));
  BOOST_TEST(WEXITSTATUS(status) == 128 + SIGTERM);
}

BOOST_AUTO_TEST_SUITE_END()
