#include "apps/terminal/console.hpp"

#include <boost/test/unit_test.hpp>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstdlib>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(console_suite)

namespace {

/// A stream that keeps what is written.
struct Memory {
  char* text = nullptr;
  size_t size = 0;
  std::FILE* stream = open_memstream(&text, &size);

  ~Memory() {
    std::fclose(stream);
    std::free(text);
  }
  std::string str() {
    std::fflush(stream);
    return {text, size};
  }
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

const std::string wipe = "\r\x1b[K";

} // namespace

BOOST_AUTO_TEST_CASE(a_pipe_gets_one_plain_line_an_epoch) {
  Memory memory;
  Console console{false, true, false, memory.stream};
  for (uint64_t step = 1; step <= 100; ++step)
    console.progress(step, 200, 0.5, 1000, 3);
  console.epoch(1, 100, 0.51234, 12'345.6, {});
  console.epoch(2, 200, 0.25, 2'500'000, {{"loss", 0.3}, {"accuracy", 0.912}});
  console.done();
  BOOST_CHECK_EQUAL(memory.str(),
                    "epoch 1  step 100  loss 0.5123  12.3k samples/s\n"
                    "epoch 2  step 200  loss 0.2500  eval loss 0.3000  "
                    "accuracy 0.9120  2.50M samples/s\n");
}

BOOST_AUTO_TEST_CASE(a_terminal_redraws_one_line) {
  Memory memory;
  Console console{false, false, true, memory.stream};
  console.progress(50, 200, 0.5, 999, 67);
  auto text = memory.str();
  BOOST_CHECK(has(text, "step 50/200"));
  BOOST_CHECK(has(text, "loss 0.5000"));
  BOOST_CHECK(has(text, "999 samples/s"));
  BOOST_CHECK(has(text, "ETA 1:07"));
  BOOST_CHECK(has(text, "[======"));
  BOOST_CHECK(!has(text, "\n"));
  BOOST_CHECK_LT(text.size() - wipe.size(), 80);
}

BOOST_AUTO_TEST_CASE(a_terminal_is_not_redrawn_more_often_than_it_can_be_read) {
  Memory memory;
  Console console{false, false, true, memory.stream};
  console.progress(1, 1'000'000, 0.5, 999, 67);
  auto first = memory.str();
  console.progress(2, 1'000'000, 0.5, 999, 67);
  BOOST_CHECK_EQUAL(memory.str(), first);
}

BOOST_AUTO_TEST_CASE(the_bar_is_wiped_before_other_lines) {
  Memory memory;
  Console console{false, false, true, memory.stream};
  console.progress(1, 2, 0.5, 999, -1);
  auto bar = memory.str();
  BOOST_CHECK(!has(bar, "ETA"));
  console.line("worker 1 came back");
  BOOST_CHECK_EQUAL(memory.str(), bar + wipe + "worker 1 came back\n" + bar);
  console.done();
  BOOST_CHECK_EQUAL(memory.str(),
                    bar + wipe + "worker 1 came back\n" + bar + wipe);
  console.done();
  console.line("end");
  BOOST_CHECK_EQUAL(memory.str(),
                    bar + wipe + "worker 1 came back\n" + bar + wipe + "end\n");
}

BOOST_AUTO_TEST_CASE(colours_are_for_terminals_that_want_them) {
  for (auto color : {false, true}) {
    Memory memory;
    Console console{false, color, true, memory.stream};
    console.progress(1, 2, 0.5, 999, 1);
    BOOST_CHECK_EQUAL(has(memory.str(), "\x1b[32m"), color);
  }
}

BOOST_AUTO_TEST_CASE(what_is_not_known_yet_shows_as_a_dash) {
  Memory memory;
  Console console{false, false, true, memory.stream};
  console.progress(0, 0, std::nan(""), std::nan(""), std::nan(""));
  auto text = memory.str();
  BOOST_CHECK(has(text, "step 0  loss -  - samples/s"));
  BOOST_CHECK(!has(text, "nan"));
}

BOOST_AUTO_TEST_CASE(quiet_shows_nothing) {
  for (auto tty : {false, true}) {
    Memory memory;
    {
      Console console{true, true, tty, memory.stream};
      console.progress(1, 2, 0.5, 999, 1);
      console.epoch(1, 2, 0.5, 999, {});
      console.line("text");
    }
    BOOST_CHECK_EQUAL(memory.str(), "");
  }
}

BOOST_AUTO_TEST_CASE(a_pipe_that_nobody_reads_is_not_written_to_any_more) {
  // Symptom: `troupe train | head -1` ended the training.
  int ends[2];
  BOOST_REQUIRE(pipe(ends) == 0);
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  std::FILE* stream = fdopen(ends[1], "w");
  {
    Console console{false, false, false, stream};
    close(ends[0]);
    console.line("x");
    console.line("y");
    BOOST_TEST(std::ferror(stream) == 0);
    BOOST_TEST(std::fflush(stream) == 0);
  }
  std::fclose(stream);
  std::signal(SIGPIPE, before);
}

BOOST_AUTO_TEST_CASE(a_stream_that_cannot_be_written_to_stays_a_failure) {
  std::FILE* stream = std::fopen("/dev/full", "w");
  Console{false, false, false, stream}.line("x");
  BOOST_TEST(std::ferror(stream) != 0);
  std::fclose(stream);
}

BOOST_AUTO_TEST_SUITE_END()
