#include "apps/settings/flags.hpp"
#include "apps/settings/help.hpp"
#include "apps/settings/settings.hpp"
#include "kernels/base/error.hpp"

#include <boost/test/unit_test.hpp>

#include <map>
#include <set>
#include <sstream>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(help_suite)

namespace {

/// Letters, not bytes: UTF-8 continuation bytes take no column.
size_t columns_of(const std::string& line) {
  size_t count = 0;
  for (auto c : line)
    count += (static_cast<unsigned char>(c) & 0xc0u) != 0x80u ? 1 : 0;
  return count;
}

} // namespace

BOOST_AUTO_TEST_CASE(every_flag_is_shown_with_its_default) {
  for (const auto* command :
       {"train", "plan", "evaluate", "predict", "generate", "role",
        "bench step", "bench kernels", "bench all-reduce", "bench null-step",
        "bench pipeline", "bench recovery", "bench goodput", "chaos", "launch",
        "model show", "data info"}) {
    auto text = help(command);
    for (const auto& flag : all_flags()) {
      if ((flag.commands & bit_of(command)) == 0 || flag.group.empty())
        continue;
      BOOST_CHECK_MESSAGE(text.find("  --" + flag.name) != std::string::npos,
                          command << " lacks --" << flag.name);
      BOOST_CHECK_MESSAGE(!flag.fallback.empty(), flag.name);
      BOOST_CHECK_MESSAGE(!flag.help.empty(), flag.name);
    }
  }
}

// `role` takes another strategy than `train`, and its help said the latter's.
BOOST_AUTO_TEST_CASE(a_default_of_one_command_is_in_its_help) {
  const auto said = [](const std::string& command, const std::string& name) {
    const auto text = help(command);
    const auto begin = text.find("\n  --" + name + ' ');
    BOOST_REQUIRE(begin != std::string::npos);
    const auto entry = text.substr(begin,
                                   text.find("\n  --", begin + 1) - begin);
    const auto open = entry.rfind('(') + 1;
    return entry.substr(open, entry.rfind(')') - open);
  };
  BOOST_TEST(said("train", "strategy") == "mirrored");
  BOOST_TEST(said("role", "strategy") == "parameter_server");
  BOOST_TEST(said("bench step", "strategy") == "one_device");
  BOOST_TEST(said("bench step", "global-batch") == "256");
}

BOOST_AUTO_TEST_CASE(no_line_is_wider_than_a_terminal) {
  for (const auto* topic : {"",
                            "train",
                            "plan",
                            "evaluate",
                            "predict",
                            "generate",
                            "role",
                            "bench",
                            "bench step",
                            "bench kernels",
                            "bench all-reduce",
                            "bench null-step",
                            "bench pipeline",
                            "bench recovery",
                            "bench goodput",
                            "chaos",
                            "launch",
                            "node",
                            "model",
                            "model show",
                            "data",
                            "data info",
                            "version"}) {
    std::istringstream lines{help(topic)};
    for (std::string line; std::getline(lines, line);)
      BOOST_CHECK_MESSAGE(columns_of(line) <= 80, topic << ": " << line);
  }
}

BOOST_AUTO_TEST_CASE(a_command_of_several_lists_them) {
  for (const auto* topic : {"bench", "ctl", "certificates", "checkpoint"}) {
    const auto text = help(topic);
    BOOST_TEST(
      text.starts_with(std::string{"usage: troupe "} + topic + " WHAT"));
    BOOST_TEST(parse_settings({topic, "--help"}, {}).topic == topic);
  }
  BOOST_TEST(help("ctl").find("ctl move-slices") != std::string::npos);
  BOOST_TEST(help("model") == help("model show"));
}

BOOST_AUTO_TEST_CASE(an_unknown_topic_is_refused) {
  BOOST_CHECK_THROW(help("trian"), UsageError);
}

BOOST_AUTO_TEST_CASE(no_command_has_a_flag_twice_and_no_file_a_key) {
  std::map<std::string, unsigned> commands;
  std::set<std::string> keys;
  for (const auto& flag : all_flags()) {
    auto& declared = commands[flag.name];
    BOOST_CHECK_MESSAGE((declared & flag.commands) == 0, flag.name);
    declared |= flag.commands;
    BOOST_CHECK_MESSAGE(!flag.get || keys.insert(flag.name).second, flag.name);
  }
  std::set<std::string> names;
  for (const auto& [name, bits] : commands)
    names.insert(name);
  for (const auto& later : later_flags())
    BOOST_CHECK_MESSAGE(names.insert(later.name).second, later.name);
}

BOOST_AUTO_TEST_SUITE_END()
