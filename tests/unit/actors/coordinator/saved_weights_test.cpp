#include "actors/coordinator/saved_weights.hpp"

#include <boost/test/unit_test.hpp>

#include <cstdlib>
#include <filesystem>
#include <string>

using namespace troupe;

namespace saved_weights {
namespace {

const std::vector<NamedTensor> weights{{"w", {2}, {1.0F, 2.0F}}};

struct Folder {
  Folder() {
    std::string name = "/tmp/troupe-saved-XXXXXX";
    path = mkdtemp(name.data());
    before = std::filesystem::current_path();
    std::filesystem::current_path(path);
  }
  ~Folder() {
    std::filesystem::current_path(before);
    std::filesystem::remove_all(path);
  }
  std::filesystem::path before;
  std::string path;
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

} // namespace
} // namespace saved_weights

BOOST_FIXTURE_TEST_SUITE(saved_weights, Folder)

// A folder that was gone at the end of a run took the weights with it.
BOOST_AUTO_TEST_CASE(weights_without_a_place_go_to_the_working_directory) {
  const auto saved = save_weights(path + "/gone/w.safetensors", weights, {});
  BOOST_TEST(!saved.as_asked);
  BOOST_TEST(has(saved.line, "No such file"));
  std::string found;
  for (const auto& entry : std::filesystem::directory_iterator{path})
    found = entry.path().filename();
  BOOST_REQUIRE(found.starts_with("w.rescued-"));
  BOOST_TEST(has(saved.line, "saved to " + path + '/' + found + " instead"));
  BOOST_TEST(read_safetensors(path + '/' + found).tensors[0].values[1] == 2.0F);
}

// The other name was too long for any folder.
BOOST_AUTO_TEST_CASE(a_long_name_is_cut_for_the_working_directory) {
  std::string stem;
  for (int i = 0; i < 121; ++i)
    stem += "\u00e9";
  const auto saved = save_weights(path + "/gone/" + stem + ".safetensors",
                                  weights, {});
  std::string found;
  for (const auto& entry : std::filesystem::directory_iterator{path})
    found = entry.path().filename();
  BOOST_REQUIRE_MESSAGE(found.size() == 254 || found.size() == 255, found);
  const auto rescued = found.find(".rescued-");
  BOOST_REQUIRE(rescued != std::string::npos);
  BOOST_TEST(rescued % 2 == 0u); // whole characters
  BOOST_TEST(stem.starts_with(found.substr(0, rescued)));
  BOOST_TEST(read_safetensors(path + '/' + found).tensors[0].values[1] == 2.0F);
}

BOOST_AUTO_TEST_CASE(each_output_is_named_by_itself) {
  const SavedWeights asked{"weights saved to w", true};
  const SavedWeights rescued{"weights saved to x instead: why", false};
  const auto line = [](const auto&... what) {
    const auto end = end_of_outputs(what...);
    return (end.complete ? "0 " : "1 ") + end.line;
  };
  BOOST_TEST(line(std::nullopt, "", "") == "0 nothing was saved (no --save)");
  BOOST_TEST(line(asked, "c", "") == "0 weights saved to w, checkpoint in c");
  BOOST_TEST(line(std::nullopt, "c", "") == "0 checkpoint in c");
  BOOST_TEST(line(asked, "", "full")
             == "1 the last checkpoint is missing: full; weights saved to w");
  BOOST_TEST(line(rescued, "c", "")
             == "1 weights saved to x instead: why; checkpoint in c");
}

BOOST_AUTO_TEST_SUITE_END()
