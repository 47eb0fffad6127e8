#include "apps/process/name_lock.hpp"
#include "kernels/base/error.hpp"
#include "kernels/files/file_error.hpp"

#include <boost/test/unit_test.hpp>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

using troupe::NameLock;

BOOST_AUTO_TEST_SUITE(name_lock)

namespace {

struct Folder {
  Folder() : path{"/tmp/troupe-name-XXXXXX"} {
    BOOST_REQUIRE(mkdtemp(path.data()) != nullptr);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string path;
};

} // namespace

BOOST_AUTO_TEST_CASE(a_name_is_one_holders_and_free_when_that_is_gone) {
  const Folder folder;
  const auto name = folder.path + "/journal";
  std::optional<NameLock> first{name};
  BOOST_TEST(first->held());
  BOOST_TEST(first->path() == name + ".lock");
  BOOST_TEST(!NameLock{name}.held());
  BOOST_TEST(std::filesystem::exists(name + ".lock")); // the first one's
  const NameLock taken{std::move(*first)};
  first.reset();
  BOOST_TEST(taken.held());
  BOOST_TEST(!NameLock{name}.held());
}

BOOST_AUTO_TEST_CASE(it_is_said_who_has_a_journal) {
  const Folder folder;
  const auto name = folder.path + "/vote.db";
  const auto first = troupe::lock_journal(name);
  BOOST_CHECK_EXCEPTION(troupe::lock_journal(name), troupe::InputError,
                        [&](const troupe::InputError& x) {
                          return std::string{x.what()}.find(
                                   "process " + std::to_string(getpid()))
                                 != std::string::npos;
                        });
}

BOOST_AUTO_TEST_CASE(nothing_is_left_of_it) {
  const Folder folder;
  const auto name = folder.path + "/journal";
  { const NameLock lock{name}; }
  BOOST_TEST(std::filesystem::is_empty(folder.path));
  BOOST_TEST(NameLock{name}.held());
}

BOOST_AUTO_TEST_CASE(a_name_in_no_folder_is_refused) {
  BOOST_CHECK_THROW(NameLock{"/nowhere/at/all/journal"}, troupe::FileError);
}

BOOST_AUTO_TEST_SUITE_END()
