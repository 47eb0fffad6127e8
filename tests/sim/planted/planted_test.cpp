#include "tests/sim/campaign.hpp"
#include "tests/sim/planted.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <string>

using namespace troupe;

uint32_t sim::planted_bug = 0;

namespace {

/// A bug of plants.py, and the first seed whose world it was seen to break.
struct Plant {
  uint32_t bug;
  uint64_t seed;
};

/// Other worlds from the same seeds, as after a change of scenario.cpp, make
/// this list old: then the test searches, and says what to write here.
constexpr Plant plants[] = {
  {1, 12},         {2, 0},          {3, 0},         {4, 1},
  {5, 44},         {6, 2},          {7, 2},         {8, 2},
  {9, 109},        {11, 204},       {12, 0},        {13, 7},
  {14, 0},         {15, 1},         {16, 181},      {17, 228},
  {18, 2},         {19, 2},         {20, 2},        {21, 5892},
  {22, 663},       {23, 8},         {24, 3679},     {25, 0},
  {26, 0},         {29, 33},        {30, 0},        {32, 127},
  {33, 11},        {34, 326},       {36, 11},       {37, 34},
  {38, 0},         {39, 2},         {40, 6},        {41, 2},
  {42, 6},         {43, 15},        {44, 26},       {45, 597},
  {46, 60},        {47, 1035},      {48, 4293},     {50, 15},
  {51, 78},        {52, 104},       {53, 31},       {54, 10000015},
  {55, 10000015},  {56, 10000004},  {57, 10000015}, {58, 20000007},
  {59, 20000000},  {60, 20000003},  {61, 20000024}, {62, 30000007},
  {106, 30000004}, {107, 30000008},
};

/// Those from here on show in worlds of hosts, in rough ones, and in worlds of
/// norms.
constexpr uint32_t first_host_bug = 54;
constexpr uint32_t first_rough_bug = 58;
constexpr uint32_t first_norm_bug = 62;
/// How far a search goes for a bug that its recorded seed does not show.
constexpr uint64_t max_seeds = 10'000;
/// Too rare for each run: TROUPE_PLANT=10. The first was found once in 14,861
/// seeds, the second by a count that was wrong itself (54611 in
/// docs/reliability.md) and not since; the third in 383, and not in 10,000
/// since slices overtake one another on links; the fourth in 1,512, and not in
/// 10,000 since there are replicas. The last, 28, was found in 308, and not in
/// 10,000 since roles say again what they had reported: a worker has to die
/// with the coordinator that had heard it.
constexpr uint32_t rare_bugs[] = {10, 27, 31, 35, 28};
constexpr uint64_t max_rare_seeds = 60'000;

class Search {
public:
  Search() {
    campaign_.run(0); // what is compared with has no bug
  }

  /// What breaks in the seed's world with the bug in it; empty: nothing.
  std::string broken(uint32_t bug, uint64_t seed) {
    sim::planted_bug = 0;
    campaign_.prepare(seed);
    sim::planted_bug = bug;
    const auto verdict = campaign_.run(seed);
    sim::planted_bug = 0;
    return verdict.what;
  }

  /// Looks at the seeds below `most`; whether one shows the bug.
  bool find(uint32_t bug, uint64_t most) {
    const auto first = bug < first_host_bug    ? 0
                       : bug < first_rough_bug ? sim::first_host_seed
                       : bug < first_norm_bug  ? sim::first_rough_seed
                                               : sim::first_norm_seed;
    for (auto seed = first; seed < first + most; ++seed)
      if (const auto what = broken(bug, seed); !what.empty()) {
        std::cout << "bug " << bug << ": seed " << seed << ", " << what
                  << std::endl;
        return true;
      }
    return false;
  }

private:
  sim::Campaign campaign_;
};

} // namespace

BOOST_AUTO_TEST_SUITE(planted)

BOOST_AUTO_TEST_CASE(the_copies_without_a_bug_find_none) {
  sim::planted_bug = 0;
  sim::Campaign campaign;
  for (uint64_t seed = 0; seed < 300; ++seed)
    BOOST_TEST(campaign.run(seed).what == "");
  for (uint64_t seed = 0; seed < 100; ++seed)
    BOOST_TEST(campaign.run(sim::first_host_seed + seed).what == "");
  for (uint64_t seed = 0; seed < 100; ++seed)
    BOOST_TEST(campaign.run(sim::first_rough_seed + seed).what == "");
  for (uint64_t seed = 0; seed < 100; ++seed)
    BOOST_TEST(campaign.run(sim::first_norm_seed + seed).what == "");
  for (const auto& plant : plants)
    BOOST_TEST(campaign.run(plant.seed).what == "");
}

/// TROUPE_PLANT=N searches for one of them from seed 0 on, TROUPE_PLANT=all for
/// all but the rare ones.
BOOST_AUTO_TEST_CASE(every_planted_bug_is_found) {
  Search search;
  const auto* text = std::getenv("TROUPE_PLANT");
  const std::string wish = text != nullptr ? text : "";
  if (!wish.empty() && wish != "all") {
    const auto bug = static_cast<uint32_t>(std::stoul(wish));
    const bool rare = std::ranges::find(rare_bugs, bug) != std::end(rare_bugs);
    BOOST_TEST(search.find(bug, rare ? max_rare_seeds : max_seeds),
               "bug " << bug << " is not found");
    return;
  }
  for (const auto& [bug, seed] : plants) {
    if (wish.empty()) {
      if (const auto what = search.broken(bug, seed); !what.empty()) {
        std::cout << "bug " << bug << ": seed " << seed << ", " << what
                  << std::endl;
        continue;
      }
      std::cout << "bug " << bug << ": seed " << seed
                << " shows it no more; write down the one that does\n";
    }
    BOOST_TEST(search.find(bug, max_seeds), "bug " << bug << " is not found");
  }
}

BOOST_AUTO_TEST_SUITE_END()
