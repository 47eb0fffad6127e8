#pragma once

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <string>

// What tests and programs of both layers do with a range of seeds.

namespace troupe::sim {

/// Runs worlds from seed `first` on, for as long as allows(how many there were)
/// and fewer than five have failed, each with the command that shows it; calls
/// look(result) of each other one. Returns how many there were.
template <class Campaign, class Allows, class Look>
uint64_t check_seeds(Campaign& campaign, const char* program, uint64_t first,
                     Allows allows, Look look) {
  constexpr uint64_t max_failed = 5;
  uint64_t failed = 0, ran = 0;
  for (; allows(ran) && failed < max_failed; ++ran) {
    const auto seed = first + ran;
    const auto verdict = campaign.run(seed);
    if (verdict.what.empty()) {
      look(verdict.result);
      continue;
    }
    ++failed;
    BOOST_ERROR("seed " << seed << ": " << verdict.what << " (" << program
                        << " --seed " << seed << " --trace)");
  }
  return ran;
}

/// Runs the worlds of [first, end) whose description has `only` in it, and
/// prints which fail, with the command that shows it, the table of faults and
/// sums. Returns 1 where one failed, or none is such a world.
template <class Campaign>
int run_seeds(const char* program, uint64_t first, uint64_t end, bool trace,
              const std::string& only = {}) {
  using Clock = std::chrono::steady_clock; // the machine's, not the simulated
  constexpr uint64_t max_shown = 30;
  Campaign campaign;
  uint64_t failed = 0, ran = 0;
  const auto begin = Clock::now();
  for (auto seed = first; seed < end; ++seed) {
    const auto world = Campaign::describe(seed);
    if (world.find(only) == std::string::npos)
      continue;
    ++ran;
    const auto verdict = campaign.run(seed, trace);
    if (!verdict.what.empty() && ++failed <= max_shown)
      std::cout << "seed " << seed << ": " << world << ": " << verdict.what
                << " (" << program << " --seed " << seed << " --trace)"
                << std::endl;
  }
  const std::chrono::duration<double, std::milli> took = Clock::now() - begin;
  if (ran == 0) {
    std::cout << "no world of these seeds is such a one\n";
    return 1;
  }
  std::cout << campaign.table() << ran << " seeds, " << failed << " failed, "
            << campaign.sums() << ", "
            << took.count() / static_cast<double>(ran) << " ms a seed\n";
  return failed > 0 ? 1 : 0;
}

/// A simulator's program: --seed N [--trace] | --seeds FIRST END [WORD, of the
/// worlds that are meant] | Boost.Test's options.
template <class Campaign>
int run_program(int argc, char** argv) {
  const auto is = [&](int at, const char* word) {
    return argc > at && std::strcmp(argv[at], word) == 0;
  };
  if (is(1, "--seed") && argc > 2) {
    const auto seed = std::stoull(argv[2]);
    std::cout << "seed " << seed << ": " << Campaign::describe(seed)
              << std::endl;
    return run_seeds<Campaign>(argv[0], seed, seed + 1, is(3, "--trace"));
  }
  if (is(1, "--seeds") && argc > 3)
    return run_seeds<Campaign>(argv[0], std::stoull(argv[2]),
                               std::stoull(argv[3]), false,
                               argc > 4 ? argv[4] : "");
  return boost::unit_test::unit_test_main([] { return true; }, argc, argv);
}

} // namespace troupe::sim
