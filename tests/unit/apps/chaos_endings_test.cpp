#include "apps/chaos/endings.hpp"
#include "kernels/checkpoint/read_checkpoint.hpp"
#include "kernels/files/safetensors.hpp"

#include <boost/test/unit_test.hpp>

#include <filesystem>
#include <fstream>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(chaos_endings)

namespace {

namespace fs = std::filesystem;

/// A folder of two checkpoints, as far as their names go.
struct KeptByChaos {
  KeptByChaos() {
    for (const char* step : {"/step-000000000010", "/step-000000000020"}) {
      fs::create_directories(folder + step);
      std::ofstream{folder + step + "/manifest.json"} << "{}";
    }
  }
  ~KeptByChaos() { fs::remove_all("chaos_endings_test"); }

  bool can_read(const std::string& step) const {
    return std::ifstream{folder + "/step-0000000000" + step + "/manifest.json"}
      .is_open();
  }

  std::string folder = "chaos_endings_test/kept";
};

} // namespace

BOOST_AUTO_TEST_CASE(checkpoints_cannot_be_read_for_a_while_and_stay) {
  const KeptByChaos kept;
  using Which = UnreadableCheckpoints::Which;
  const auto before = list_checkpoints(kept.folder);
  BOOST_TEST(before.size() == 2u);
  {
    const UnreadableCheckpoints newest{kept.folder, Which::newest};
    BOOST_TEST((!kept.can_read("20") && kept.can_read("10")));
  }
  BOOST_TEST((kept.can_read("20") && kept.can_read("10")));
  {
    const UnreadableCheckpoints all{kept.folder, Which::all};
    BOOST_TEST((!kept.can_read("20") && !kept.can_read("10")));
    BOOST_TEST(find_checkpoints(kept.folder).size() == 2u);
  }
  {
    const UnreadableCheckpoints folder{kept.folder, Which::folder};
    BOOST_CHECK_EXCEPTION(
      find_checkpoints(kept.folder), std::exception, [](const auto& failure) {
        return std::string{failure.what()}.find(UnreadableCheckpoints::reason())
               != std::string::npos;
      });
  }
  BOOST_TEST((list_checkpoints(kept.folder) == before));
}

BOOST_AUTO_TEST_CASE(what_was_not_saved_is_told) {
  const KeptByChaos kept;
  const auto weights = kept.folder + "/weights.safetensors";
  const ChaosSaved saved{weights, kept.folder};
  write_safetensors(weights, {{"w", {1}, {1.0f}}}, {{"step", "20"}});
  const auto judged = [&](uint64_t steps) {
    return judge_ending(ChaosKind::signal_all, {{"steps", steps}}, saved);
  };
  BOOST_TEST(judged(20).failures.empty());
  BOOST_TEST(judged(21).failures.size() == 2u); // weights and checkpoint
  auto ending = judged(20);
  judge_resumption({{"resumed_from", {{"step", 20}}}}, ending);
  BOOST_TEST(ending.failures.empty());
  judge_resumption({{"resumed_from", {{"step", 10}}}}, ending);
  judge_resumption({{"resumed_from", nullptr}}, ending);
  BOOST_TEST_REQUIRE(ending.failures.size() == 2u);
  BOOST_TEST(ending.failures[1]
             == "signal-all: the job ended after step 20 and went on from its "
                "beginning");
}

BOOST_AUTO_TEST_SUITE_END()
