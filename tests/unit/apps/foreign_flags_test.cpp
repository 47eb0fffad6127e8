#include "apps/settings/command_line.hpp"
#include "apps/settings/flags.hpp"
#include "apps/settings/foreign_flags.hpp"
#include "kernels/base/error.hpp"

#include <boost/test/unit_test.hpp>

#include <set>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(foreign_flags_suite)

BOOST_AUTO_TEST_CASE(each_stands_once_for_a_flag_that_there_is) {
  std::set<std::string_view> own;
  const auto flags = all_flags();
  for (const auto& flag : flags)
    own.insert(flag.name);
  std::set<std::string_view> seen;
  for (const auto& [theirs, ours] : foreign_flags()) {
    BOOST_TEST(own.contains(ours), ours);
    BOOST_TEST(theirs.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789")
                 == theirs.npos,
               theirs);
    BOOST_TEST(seen.insert(theirs).second, theirs);
  }
}

BOOST_AUTO_TEST_CASE(flags_of_other_programs_are_told_what_they_are_here) {
  const std::pair<const char*, const char*> told[] = {
    {"--batch_size", "--global-batch"},
    {"--batch-size=32", "--global-batch"},
    {"--learning_rate", "--lr"},
    {"--LR", "--lr"},
    {"--num_train_epochs", "--epochs"},
    {"--gradient_accumulation_steps", "--virtual-ranks"},
    {"--weight_decay", "--weight-decay"},
    {"--nproc_per_node", "--workers"},
    {"--max-grad-norm", "--clip-norm"},
  };
  for (const auto& [theirs, ours] : told) {
    std::string said;
    try {
      parse_command_line({"train", theirs, "1"});
    } catch (const UsageError& mistake) {
      said = mistake.what();
    }
    const auto wanted = std::string{"; did you mean "} + ours + "? (see";
    BOOST_TEST(said.find(wanted) != said.npos, said);
  }
}

BOOST_AUTO_TEST_SUITE_END()
