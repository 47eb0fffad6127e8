#include "tests/sim/campaign.hpp"
#include "tests/sim/planted.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstdlib>
#include <iostream>

using namespace troupe;

uint32_t sim::planted_bug = 0;

namespace {

constexpr uint64_t most_seeds = 10'000;
/// Too rare for each run: TROUPE_PLANT=10. The first was found once in 14,861
/// seeds, the second by a count that was wrong itself (54611 in
/// docs/reliability.md) and not since; the third in 383, and not in 10,000
/// since slices overtake one another on links; the fourth in 1,512, and not in
/// 10,000 since there are replicas.
constexpr uint32_t rare_bugs[] = {10, 27, 31, 35};
constexpr uint64_t most_rare_seeds = 60'000;
constexpr uint32_t bugs = 53;
constexpr uint32_t not_here = 49; ///< layer 2's

} // namespace

BOOST_AUTO_TEST_SUITE(planted)

BOOST_AUTO_TEST_CASE(the_copies_without_a_bug_find_none) {
  sim::planted_bug = 0;
  sim::Campaign campaign;
  for (uint64_t seed = 0; seed < 300; ++seed)
    BOOST_TEST(campaign.run(seed).what == "");
}

/// TROUPE_PLANT=N: one of them.
BOOST_AUTO_TEST_CASE(every_planted_bug_is_found) {
  const auto* only = std::getenv("TROUPE_PLANT");
  sim::Campaign campaign;
  campaign.run(0); // what is compared with has no bug
  for (uint32_t bug = 1; bug <= bugs; ++bug) {
    const bool rare = std::ranges::find(rare_bugs, bug) != std::end(rare_bugs);
    if (only == nullptr ? rare : std::strtoul(only, nullptr, 10) != bug)
      continue;
    if (bug == not_here)
      continue;
    const auto most = rare ? most_rare_seeds : most_seeds;
    bool found = false;
    for (uint64_t seed = 0; seed < most && !found; ++seed) {
      sim::planted_bug = 0;
      campaign.prepare(seed);
      sim::planted_bug = bug;
      const auto verdict = campaign.run(seed);
      found = !verdict.what.empty();
      if (found)
        std::cout << "bug " << bug << ": " << seed + 1 << " seeds, "
                  << verdict.what << std::endl;
    }
    sim::planted_bug = 0;
    BOOST_TEST(found, "bug " << bug << " is not found");
  }
}

BOOST_AUTO_TEST_SUITE_END()
