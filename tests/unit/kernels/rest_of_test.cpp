#include "kernels/base/rest_of.hpp"

#include <boost/test/unit_test.hpp>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(rest_of_streams)

BOOST_AUTO_TEST_CASE(it_is_all_that_was_not_read) {
  for (size_t length : {0, 1, 4095, 4096, 4097, 10'000}) {
    const std::string text(length, 'a');
    std::istringstream in{"first\n" + text};
    std::string first;
    std::getline(in, first);
    BOOST_TEST((rest_of(in) == text), length);
    BOOST_TEST(!in.bad());
  }
}

BOOST_AUTO_TEST_CASE(a_file_that_is_not_there_and_a_folder_have_none) {
  std::ifstream missing{"/proc/self/no such file"};
  BOOST_TEST(rest_of(missing).empty());
  std::ifstream folder{"/proc/self"};
  BOOST_TEST(rest_of(folder).empty());
  BOOST_TEST(folder.bad());
}

BOOST_AUTO_TEST_CASE(a_process_that_ends_between_open_and_read_says_nothing) {
  const auto child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  std::ifstream about{"/proc/" + std::to_string(child) + "/stat"};
  BOOST_TEST(about.is_open());
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  BOOST_TEST(rest_of(about).empty());
  BOOST_TEST(about.bad());
}

BOOST_AUTO_TEST_SUITE_END()
