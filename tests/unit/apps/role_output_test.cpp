#include "apps/process/role_output.hpp"

#include <boost/test/unit_test.hpp>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

// Symptom: a run that failed repeated up to twenty lines, most of them alike,
// and did not say where the others were.

using namespace troupe;

BOOST_AUTO_TEST_SUITE(role_output)

using Words = std::vector<std::string>;

BOOST_AUTO_TEST_CASE(the_last_words_are_few_and_each_is_there_once) {
  RoleOutput output{""};
  BOOST_TEST(output.last_words("worker:1 died").empty());
  output.add("worker:1", "begins");
  output.add("worker:10", "of another");
  BOOST_TEST(output.last_words("worker:1 died") == Words{"[worker 1] begins"},
             boost::test_tools::per_element());
  for (int i = 0; i < 3; ++i)
    for (const auto* line : {"a", "b", "c"})
      output.add("worker:1", line);
  const Words all{"[worker 1] begins", "[worker 1] a", "[worker 1] b",
                  "[worker 1] c",
                  "(6 lines more: with --log-dir DIR all are kept)"};
  BOOST_TEST(output.last_words("worker:1 died (exit status 1)") == all,
             boost::test_tools::per_element());
  for (int i = 0; i < 30; ++i)
    output.add("worker:1", std::to_string(i));
  const Words newest{
    "[worker 1] 25", "[worker 1] 26",
    "[worker 1] 27", "[worker 1] 28",
    "[worker 1] 29", "(35 lines more: with --log-dir DIR all are kept)"};
  BOOST_TEST(output.last_words("worker:1 died") == newest,
             boost::test_tools::per_element());
  // Nobody is named: of all.
  BOOST_TEST(output.last_words("a step took too long").back()
             == "(36 lines more: with --log-dir DIR all are kept)");
}

BOOST_AUTO_TEST_CASE(what_was_said_before_is_in_a_file) {
  namespace fs = std::filesystem;
  const auto folder = fs::temp_directory_path()
                      / ("troupe-output-" + std::to_string(::getpid()));
  fs::create_directory(folder);
  {
    RoleOutput output{folder.string()};
    for (int i = 0; i < 7; ++i)
      output.add("ps:0", std::to_string(i));
    BOOST_TEST(output.last_words("ps:0 died").back()
               == "(2 lines more: in " + folder.string() + "/ps-0.log)");
    BOOST_TEST(output.last_words("").back()
               == "(2 lines more: in " + folder.string() + ")");
  }
  fs::remove_all(folder);
}

BOOST_AUTO_TEST_SUITE_END()
