#include "kernels/base/error.hpp"
#include "kernels/graph/foreign_kinds.hpp"
#include "kernels/graph/model_file.hpp"
#include "kernels/graph/models.hpp"
#include "kernels/graph/op_rules.hpp"

#include <boost/test/unit_test.hpp>

#include <set>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(foreign_kinds_suite)

namespace {

void check_words(std::span<const ForeignWord> words,
                 const std::set<std::string_view>& own) {
  std::set<std::string_view> seen;
  for (const auto& [theirs, ours] : words) {
    BOOST_TEST(own.contains(ours), ours);
    BOOST_TEST(!own.contains(theirs), theirs);
    BOOST_TEST(theirs.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789")
                 == theirs.npos,
               theirs);
    BOOST_TEST(seen.insert(theirs).second, theirs);
  }
}

std::string refused(const std::string& op) {
  try {
    build_graph(parse_model_json(
      R"({"sample": {"features": [8, 8, 3], "classes": 2}, "operators": [)" + op
        + "]}",
      "m.json"));
  } catch (const UsageError& mistake) {
    return mistake.what();
  }
  return "";
}

bool ends_with(const std::string& text, const std::string& end) {
  BOOST_TEST_MESSAGE(text);
  return text.ends_with(end);
}

} // namespace

BOOST_AUTO_TEST_CASE(each_stands_once_for_what_there_is) {
  std::set<std::string_view> kinds;
  std::set<std::string_view> attributes;
  for (const auto& rule : kernels::op_rules()) {
    kinds.insert(rule.name);
    attributes.insert(rule.attributes.begin(), rule.attributes.end());
  }
  check_words(kernels::foreign_kinds(), kinds);
  check_words(kernels::foreign_attributes(), attributes);
}

BOOST_AUTO_TEST_CASE(kinds_of_other_programs_are_told_what_they_are_here) {
  BOOST_TEST(ends_with(refused(R"({"kind": "Linear"})"),
                       "unknown kind Linear; did you mean dense?"));
  BOOST_TEST(ends_with(refused(R"({"kind": "Conv2d"})"),
                       "unknown kind Conv2d; did you mean conv2d?"));
  BOOST_TEST(ends_with(refused(R"({"kind": "BatchNorm2d"})"),
                       "did you mean batch_norm?"));
  BOOST_TEST(ends_with(refused(R"({"kind": "CrossEntropyLoss"})"),
                       "did you mean softmax_cross_entropy?"));
  BOOST_TEST(
    refused(R"({"kind": "conv2d", "out_channels": 4, "kernel": 3})")
      .find("conv2d has no attribute out_channels (did you mean units?)")
    != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
