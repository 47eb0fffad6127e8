#include "actors/certificates/certificate.hpp"
#include "actors/certificates/member_files.hpp"
#include "kernels/base/error.hpp"
#include "tests/unit/actors/job_certificates.hpp"

#include <boost/test/unit_test.hpp>

#include <filesystem>
#include <optional>

using namespace troupe;

namespace member_files {
namespace {

const MemberName worker_1 = *parse_member_name("worker:1");

struct Bench {
  Bench() {
    auto source = CertificateSource{};
    source.valid_seconds = 1'000;
    authority = make_authority(source);
    files.emplace(authority, folder.path);
  }

  test::Folder folder;
  Credentials authority;
  std::optional<MemberFiles> files;
};

} // namespace
} // namespace member_files

BOOST_FIXTURE_TEST_SUITE(member_files, Bench)

BOOST_AUTO_TEST_CASE(each_member_finds_its_own_and_no_authoritys_key) {
  const auto path = files->path(worker_1);
  const auto found = load_credentials(path, worker_1);
  BOOST_CHECK(found.name == worker_1);
  BOOST_TEST(found.authority == authority.authority);
  BOOST_TEST(found.authority_key.empty());
  BOOST_TEST(files->path(worker_1) == path);
  BOOST_TEST(load_credentials(path, worker_1).key == found.key);
  BOOST_CHECK_THROW(load_credentials(path, operator_name), InputError);
  BOOST_TEST(files->path(operator_name) != path);
}

BOOST_AUTO_TEST_CASE(the_coordinator_signs) {
  const auto found = load_credentials(files->path(coordinator_name),
                                      coordinator_name);
  const auto made = make_member(found, worker_1);
  BOOST_CHECK(name_in(certificate_in(made.certificate).get()) == worker_1);
}

BOOST_AUTO_TEST_CASE(nothing_is_on_a_disk_and_nothing_is_left) {
  const auto path = files->path(worker_1);
  BOOST_TEST(std::filesystem::is_empty(folder.path));
  files.reset();
  BOOST_CHECK_THROW(load_credentials(path, worker_1), InputError);
}

BOOST_AUTO_TEST_SUITE_END()
